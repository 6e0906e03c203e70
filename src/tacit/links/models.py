"""The link predictors: ComplEx, DistMult, CP, TransE and RotatE; how runs keep them."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from tacit.disk import MAPS
from tacit.distributed.shards import Shards
from tacit.errors import RunError, SettingsError
from tacit.fitting.tensor_files import RunFiles
from tacit.links.factors import MULTIPLE, BilinearModel, Embeddings, FactorModel
from tacit.links.scorer import shards_of
from tacit.run_folder.files import CHECKPOINT, MODEL, ON_PREDICTOR
from tacit.run_folder.folder import RunFolder, is_of_rules
from tacit.settings import device_name

BLOCK_NUMBERS = 5 * 10**7  # differences of a block: a tenth of a second
BLOCK_BYTES = 64 * 2**20  # temporaries of a streamed distance


class ComplEx(BilinearModel):
    """`Re ⟨h, r, conj(t)⟩` over complex vectors (Trouillon et al., 2016).

    Rows are real half, imaginary half.
    """

    entity_width = relation_width = 2

    def compose(self, heads: Tensor, relations: Tensor) -> Tensor:
        """The complex product `h · r`."""
        (a, b), (c, d) = heads.chunk(2, -1), relations.chunk(2, -1)
        return torch.cat((a * c - b * d, a * d + b * c), -1)

    def relation_queries(self, heads: Tensor, tails: Tensor) -> Tensor:
        """`conj(h) · t`."""
        (a, b), (c, d) = heads.chunk(2, -1), tails.chunk(2, -1)
        return torch.cat((a * c + b * d, a * d - b * c), -1)


class DistMult(BilinearModel):
    """`⟨h, r, t⟩` over real vectors (Yang et al., 2015): the same in both directions."""

    def compose(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`h · r`, number by number."""
        return heads * relations

    def relation_queries(self, heads: Tensor, tails: Tensor) -> Tensor:
        """`h · t`, number by number."""
        return heads * tails


class CP(DistMult):
    """`⟨h, r, t⟩` with separate tables of heads and tails (Hitchcock; Lacroix et al., 2018)."""

    tables = 2

    def __init__(self, num_entities: int, num_relations: int, rank: int) -> None:
        super().__init__(num_entities, num_relations, rank)
        self.tails = Embeddings(num_entities, rank, MULTIPLE)

    @property
    def tail_table(self) -> Embeddings:
        """The rows of entities as tails."""
        return self.tails

    def entity_vectors(self, entities: Tensor) -> Tensor:
        """`[B] -> [B, 2D]`: an entity is its row as a head, then its row as a tail."""
        return torch.cat((self.entities(entities), self.tails(entities)), -1)

    def score_vectors(self, heads: Tensor, relations: Tensor, tails: Tensor) -> Tensor:
        """`[B, 2D] x [B] x [B, 2D] -> [B]`."""
        return super().score_vectors(heads[..., : self.rank], relations, tails[..., self.rank :])

    def score_all(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`[B, D] or [B, 2D] x [B] -> [B, N]`."""
        return super().score_all(heads[..., : self.rank], relations)


class DistanceModel(FactorModel):
    """A model whose match is a negative distance, in norm 1 or 2."""

    def __init__(self, num_entities: int, num_relations: int, rank: int, norm: int = 1) -> None:
        super().__init__(num_entities, num_relations, rank)
        if norm not in (1, 2):
            raise SettingsError(f"norm is {norm}; distances are measured in norm 1 or 2")
        self.norm = norm

    def match(self, queries: Tensor, tails: Tensor) -> Tensor:
        """Negative distances of all pairs, in blocks that Ctrl-C can interrupt."""
        # the product form of the L2 distance loses digits, and pairs would differ from rows
        blocks = torch.split(tails, max(1, BLOCK_NUMBERS // max(1, queries.numel())))
        mode = "donot_use_mm_for_euclid_dist"
        return torch.cat(
            [-torch.cdist(queries, block, float(self.norm), mode) for block in blocks], -1
        )

    def pull(
        self,
        queries: Tensor,
        tails: Tensor,
        weights: Tensor,
        out: Tensor,
        precision: str = "float32",
    ) -> Tensor:
        """The gradient of `Σ weights · match`, one block at a time."""
        by_query = torch.zeros_like(queries)
        size = max(1, BLOCK_BYTES // (16 * max(1, queries.numel())))
        for start in range(0, len(tails), size):
            block = slice(start, start + size)
            by_query += super().pull(
                queries, tails[block], weights[:, block], out[block], precision
            )
        return by_query

    def match_pairs(self, queries: Tensor, tails: Tensor) -> Tensor:
        """Negative distances of pairs."""
        distances: Tensor = torch.linalg.vector_norm(queries - tails, float(self.norm), -1)
        return -distances


class TransE(DistanceModel):
    """`-‖h + r - t‖` in the L1 or L2 norm (Bordes et al., 2013)."""

    def compose(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`h + r`."""
        return heads + relations


class RotatE(DistanceModel):
    """`-‖h ∘ r - t‖` over complex vectors with `|r| = 1` (Sun et al., 2019).

    Relations are stored as phases. The norm is the sum of moduli (1) or the length of the complex
    vector (2).
    """

    entity_width = 2

    def reset(self, scale: float, generator: torch.Generator | None = None) -> None:
        """Draw entities from a normal distribution and phases from the whole circle."""
        self.entities.reset(scale, generator)
        with torch.no_grad():
            turns = torch.rand(self.relations.rows, self.relations.width, generator=generator)
            self.relations.weight.copy_((turns * 2 - 1) * math.pi)

    def compose(self, heads: Tensor, relations: Tensor) -> Tensor:
        """`h` turned by the phases of `r`."""
        (a, b), c, d = heads.chunk(2, -1), relations.cos(), relations.sin()
        return torch.cat((a * c - b * d, a * d + b * c), -1)

    def match(self, queries: Tensor, tails: Tensor) -> Tensor:
        """Negative distances of all pairs, in blocks of tails that a backward pass recomputes."""
        if self.norm == 2:
            return super().match(queries, tails)
        blocks = torch.split(tails, max(1, BLOCK_BYTES // (16 * max(1, queries.numel()))))
        match = _modulus_match
        if torch.is_grad_enabled() and len(blocks) > 1:
            match = partial(checkpoint, match, use_reentrant=False, preserve_rng_state=False)
        return torch.cat([match(queries, block) for block in blocks], -1)

    def match_pairs(self, queries: Tensor, tails: Tensor) -> Tensor:
        """Negative distances of pairs."""
        if self.norm == 2:
            return super().match_pairs(queries, tails)
        return -_as_complex(queries - tails).abs().sum(-1)

    def squares(self, heads: Tensor, relations: Tensor, tails: Tensor) -> tuple[Tensor, ...]:
        """`|h|²` and `|t|²`; a phase has no size."""
        return self.vector_squares(heads), self.vector_squares(tails)


def _as_complex(halves: Tensor) -> Tensor:
    real, imaginary = halves.chunk(2, -1)
    return torch.complex(real.contiguous(), imaginary.contiguous())


def _modulus_match(queries: Tensor, tails: Tensor) -> Tensor:
    # at z = 0 the gradient of a complex |z| is 0, that of a square root NaN
    return -(_as_complex(queries)[:, None] - _as_complex(tails)[None]).abs().sum(-1)


MODELS: dict[str, type[FactorModel]] = {
    "complex": ComplEx,
    "distmult": DistMult,
    "cp": CP,
    "transe": TransE,
    "rotate": RotatE,
}


def make_model(
    name: str,
    num_entities: int,
    num_relations: int,
    rank: int,
    norm: int = 1,
    shards: Shards | None = None,
) -> FactorModel:
    """Create a model by name, all zeros; with `shards`, only the rows of this process."""
    if name not in MODELS:
        raise SettingsError(f"unknown model '{name}'; the models are {', '.join(MODELS)}")
    kind = MODELS[name]
    rows = num_entities if shards is None else shards.size
    norms = [norm] if issubclass(kind, DistanceModel) else []
    model = kind(rows, num_relations, rank, *norms)
    if shards is not None and shards.world > 1:
        model.num_entities = num_entities
        model.head_table.shards = model.tail_table.shards = shards
    return model


def make_like(
    model: FactorModel, num_entities: int, num_relations: int, rank: int | None = None
) -> FactorModel:
    """Create a model of the same kind for other sizes, all zeros."""
    settings = model_settings(model)
    settings["rank"] = rank or model.rank
    return make_model(settings.pop("model"), num_entities, num_relations, **settings)


def model_settings(model: FactorModel) -> dict[str, Any]:
    """The name, rank and norm of a model, as settings name them."""
    name = next(name for name, kind in MODELS.items() if kind is type(model))
    return {"model": name, "rank": model.rank, "norm": getattr(model, "norm", 1)}


def save_model(run: RunFolder, model: FactorModel) -> None:
    """Write a model to `model.safetensors`, in parts if its rows are shared out.

    Adapters, and encoders over the vectors of the link predictor, only fit the old weights and are
    deleted. Evaluations of the old weights are marked as outdated.
    """
    shards = shards_of(model)
    if shards.leads:
        run.drop("adapt")
        if run.settings.get("encode", {}).get("model") in ON_PREDICTOR:
            run.drop("encode")
        run.outdate("train")
    RunFiles(run, shards).write(
        MODEL,
        model.state_dict(),
        {name: str(value) for name, value in model_settings(model).items()},
    )


def load_model(run: RunFolder, device: str = "cpu", shards: Shards | None = None) -> FactorModel:
    """Load the trained model of a run, frozen; with `shards`, the rows of this process.

    On a CPU the tables are mapped from the file, so that processes share them. The mapping is
    copy-on-write: a write to a table never changes the file.
    """
    if not run.has(MODEL):
        if is_of_rules(run):
            raise RunError(
                f"run '{run.path}' predicts by rules, which have no vectors; give a run of "
                f"{', '.join(MODELS)}"
            )
        how = (
            "its training has not finished; go on with `resume=True`"
            if run.has(CHECKPOINT)
            else "train it first"
        )
        raise RunError(f"run '{run.path}' has no {MODEL}: {how}", command="train")
    graph = run.settings["graph"]
    target = pick_device(device)
    is_mapped = MAPS and target.type == "cpu"  # padding is for a GPU's products
    with run.fits(MODEL, "train the run again"):
        sizes = graph["entities"], graph["relations"]
        stamp, tables = RunFiles(run, shards or Shards(sizes[0])).contents(MODEL)
        with torch.device("meta"):
            model = make_model(
                stamp["model"], *sizes, int(stamp["rank"]), int(stamp["norm"]), shards
            )
        if not is_mapped:
            model.to_empty(device=target)
        for name, table in tables.items():
            if table.dtype != torch.float32:
                raise ValueError(f"{name} is of {table.dtype}, not {torch.float32}")
        model.load_state_dict(tables, assign=is_mapped)
    for part in model.modules() if not is_mapped else ():
        # new parameters have no writes counted, like mapped ones
        if isinstance(part, Embeddings):
            part.storage = nn.Parameter(part.storage.data)
    return model.requires_grad_(False).eval()


def pick_device(name: str) -> torch.device:
    """The device of a name; `auto` is the GPU if there is one."""
    if device_name(str(name)) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    gpus = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= gpus:
        available = (
            f"the last GPU here is cuda:{gpus - 1}"
            if gpus
            else "no GPU is available here; use cpu or auto"
        )
        raise SettingsError(f"device is '{name}' but {available}", "device")
    return device
