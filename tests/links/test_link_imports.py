from __future__ import annotations

import gzip
import logging
import pickle
import struct
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from tacit.errors import DataError, RunError, SettingsError
from tacit.graph.graph import Graph
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links.imports import Imported, import_run, read_import, read_kbc
from tacit.links.models import ComplEx, load_model
from tacit.links.pykeen import from_pykeen, read_triples

KINDS = {
    "ComplEx": {},
    "DistMult": {},
    "TransE": {"scoring_fct_norm": 2},
    "TransE-L1": {"scoring_fct_norm": 1},
    "RotatE": {},
}


def save_kbc(path: Path, entities: torch.Tensor, relations: torch.Tensor, **around: Any) -> Path:
    torch.save({"embeddings.0.weight": entities, "embeddings.1.weight": relations} | around, path)
    return path


def test_a_kbc_checkpoint_by_hand(tmp_path: Path) -> None:
    # h = 1 + 2i, r = 3 + 4i, t = 5 + 6i: h r = -5 + 10i, Re(h r conj(t)) = -25 + 60 = 35.
    entities = torch.tensor([[1.0, 2.0], [5.0, 6.0]])
    relations = torch.tensor([[3.0, 4.0], [0.0, 1.0]])
    model = read_kbc(save_kbc(tmp_path / "kbc.pt", entities, relations))
    zero = torch.tensor([0])
    assert model.logits_of(zero, zero, torch.tensor([1])).tolist() == [35.0]
    # h · i = -2 + i, Re((-2 + i)(5 - 6i)) = -10 + 6 = -4.
    assert model.logits_of(zero, torch.tensor([1]), torch.tensor([1])).tolist() == [-4.0]
    assert model.logits(zero, zero).shape == (1, 2)


def test_stacked_reciprocals_become_interleaved(tmp_path: Path) -> None:
    relations = torch.arange(8.0).reshape(4, 2)  # p, q, p^-1, q^-1
    path = save_kbc(tmp_path / "kbc.pt", torch.ones(3, 2), relations)
    stacked = read_kbc(path, reciprocal="stacked").relations.weight
    assert stacked.tolist() == [[0, 1], [4, 5], [2, 3], [6, 7]]
    assert read_kbc(path).relations.weight.tolist() == relations.tolist()
    with pytest.raises(SettingsError, match="must be one of interleaved, stacked"):
        read_kbc(path, reciprocal="other")


def test_nested_state_dicts_are_found(tmp_path: Path) -> None:
    class Cqd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embeddings = nn.ModuleList([nn.Embedding(3, 4), nn.Embedding(2, 4)])

    model = Cqd()
    torch.save({"epoch": 3, "model_state_dict": model.state_dict()}, tmp_path / "cqd.pt")
    found = read_kbc(tmp_path / "cqd.pt")
    assert torch.equal(found.entities.weight, model.embeddings[0].weight)
    assert (found.num_entities, found.num_relations, found.rank) == (3, 2, 2)


@pytest.mark.parametrize(
    ("entities", "relations", "message"),
    [
        (torch.ones(3, 4), torch.ones(2, 6), "of one rank"),
        (torch.ones(3, 3), torch.ones(2, 3), "real and an imaginary half"),
        (torch.ones(3, 4), torch.ones(3, 4), "must be even"),
        (torch.full((3, 4), torch.nan), torch.ones(2, 4), "not finite"),
        (
            torch.ones(3, 4),
            torch.full((2, 4), 1e39, dtype=torch.float64),
            "relations holds .* not finite",
        ),
    ],
)
def test_checkpoints_that_are_no_complex_models(
    tmp_path: Path, entities: torch.Tensor, relations: torch.Tensor, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_kbc(save_kbc(tmp_path / "kbc.pt", entities, relations))


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("executed"),))


def test_code_in_a_checkpoint_is_never_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"embeddings.0.weight": Evil()}, "evil.pt")
    with pytest.raises(DataError, match="nothing in it was executed"):
        read_kbc("evil.pt")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "trained_model.pkl").write_bytes(pickle.dumps(Evil()))
    with pytest.raises(SettingsError, match="trust_pickle"):
        read_import("run")
    assert not Path("executed").exists()


def repacked(
    path: Path, change: Callable[[str, bytes], bytes], packing: int = zipfile.ZIP_STORED
) -> Path:
    """A checkpoint with its parts changed."""
    with zipfile.ZipFile(path) as archive:
        parts = {part.filename: archive.read(part) for part in archive.infolist()}
    with zipfile.ZipFile(path, "w", packing) as archive:
        for name, data in parts.items():
            archive.writestr(name, change(name, data))
    return path


def test_checkpoints_that_would_fill_the_memory_or_never_end_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    tables = torch.zeros(50_000, 4), torch.zeros(2, 4)
    with pytest.raises(DataError, match=r"x\.pt: is no checkpoint .*it is packed"):
        read_kbc(repacked(save_kbc(path, *tables), lambda _, data: data, zipfile.ZIP_DEFLATED))
    with pytest.raises(DataError, match="fewer numbers than its shape says"):
        read_kbc(save_kbc(path, torch.zeros(1, 1).expand(2**20, 2**20), torch.zeros(2, 4)))
    save_kbc(path, torch.zeros(3, 4), tables[1])
    # numbers of a table, as a pickle says it
    twelve = b"K\x0ctq"
    billion = b"J" + struct.pack("<i", 2**30) + b"tq"
    with pytest.raises(DataError, match="more numbers than it holds"):
        read_kbc(repacked(path, lambda _, data: data.replace(twelve, billion)))
    deep = b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s."
    with pytest.raises(DataError, match="nests so deep"):
        read_kbc(repacked(path, lambda name, data: deep if name.endswith("data.pkl") else data))


@pytest.mark.parametrize("zipped", [True, False], ids=["of today", "from before 1.6"])
def test_both_kinds_of_torch_files_are_read(tmp_path: Path, zipped: bool) -> None:
    entities = torch.randn(5, 6)
    relations = torch.randn(4, 6)
    state = {
        "embeddings.0.weight": nn.Parameter(entities),
        "embeddings.1.weight": relations,
        "epoch": 3,
    }
    torch.save(state, tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    assert torch.equal(read_kbc(tmp_path / "x.pt").entities.weight, entities)


def test_files_that_are_something_else(tmp_path: Path) -> None:
    (tmp_path / "text.pt").write_text("no checkpoint")
    with pytest.raises(DataError, match="no checkpoint of plain tensors"):
        read_import(tmp_path / "text.pt")
    torch.save({"weight": torch.ones(2)}, tmp_path / "other.pt")
    with pytest.raises(DataError, match="it holds weight"):
        read_import(tmp_path / "other.pt")
    with pytest.raises(DataError, match=r"has no trained_model\.pkl"):
        read_import(tmp_path)
    with pytest.raises(DataError, match="no such file"):
        read_import(tmp_path / "none")


def test_a_kbc_checkpoint_becomes_a_run_of_its_graph_only(tmp_path: Path) -> None:
    graph = Graph.of([("a", "p", "b"), ("b", "q", "c")])
    generator = torch.Generator().manual_seed(0)
    entities = torch.randn(3, 6, generator=generator)
    relations = torch.randn(4, 6, generator=generator)
    imported = read_import(save_kbc(tmp_path / "kbc.pt", entities, relations))
    run = import_run(imported, graph, tmp_path / "run", "kbc.pt")
    model = load_model(run)
    assert torch.equal(model.entities.weight, entities)
    assert run.settings["train"]["rank"] == 3
    assert run.settings["import"] == {"source": "kbc.pt"}
    with pytest.raises(
        RunError, match="3 entities and 4 relation ids, but graph has 2 entities and 2"
    ):
        import_run(imported, Graph.of([("a", "p", "b")]), tmp_path / "other", "kbc.pt")
    assert not (tmp_path / "other").exists()
    with pytest.raises(DataError, match="give it as `graph`"):
        imported.graph("kbc.pt")


@pytest.fixture(scope="module")
def nations() -> Iterator[Any]:
    """PyKEEN's triples of Nations; PyKEEN warns and logs on import."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.CRITICAL)
        datasets = pytest.importorskip("pykeen.datasets")
        yield datasets.Nations
        logging.disable(logging.NOTSET)


def pykeen_model(nations: Any, kind: str, inverse: bool) -> tuple[Any, Any]:
    from pykeen.models import model_resolver

    factory = nations(create_inverse_triples=inverse).training
    name = kind.partition("-")[0]
    model = model_resolver.make(
        name, KINDS[kind], triples_factory=factory, embedding_dim=6, random_seed=1
    )
    model.reset_parameters_()
    # away from the initial values; a constraint applies after every step
    for parameter in model.parameters():
        with torch.no_grad():
            parameter += 0.3 * torch.randn(
                parameter.shape, generator=torch.Generator().manual_seed(7)
            )
    model.post_parameter_update()
    return model.eval(), factory


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("inverse", [False, True], ids=["plain", "inverse-triples"])
@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_pykeen_for_tails_and_heads(
    nations: Any, kind: str, inverse: bool
) -> None:
    theirs, factory = pykeen_model(nations, kind, inverse)
    ours = from_pykeen(theirs)
    assert (ours.num_entities, ours.num_relations) == (14, 110)
    pairs = torch.cartesian_prod(torch.arange(14), torch.arange(55))  # entity, forward relation
    entities, relations = pairs.T
    with torch.inference_mode():
        tails = theirs.predict_t(pairs)
        heads = theirs.predict_h(pairs.flip(1))
        triples = theirs.predict_hrt(factory.mapped_triples[:200])
    assert torch.allclose(ours.logits(entities, 2 * relations), tails, atol=1e-4)
    assert torch.allclose(ours.logits(entities, 2 * relations + 1), heads, atol=1e-4)
    h, r, t = factory.mapped_triples[:200].T
    assert torch.allclose(ours.logits_of(h, 2 * r, t), triples[:, 0], atol=1e-4)


@pytest.mark.filterwarnings("ignore")
def test_models_that_cannot_be_imported_say_what_can(nations: Any) -> None:
    from pykeen.models import TransE, TransH

    factory = nations().training
    with pytest.raises(SettingsError, match="kind TransH cannot be imported"):
        from_pykeen(TransH(triples_factory=factory, embedding_dim=4))
    with pytest.raises(SettingsError, match="norm 2 to its own power"):
        from_pykeen(
            TransE(triples_factory=factory, embedding_dim=4, scoring_fct_norm=2, power_norm=True)
        )
    with pytest.raises(SettingsError, match="cannot be imported"):
        from_pykeen(nn.Linear(1, 1))


@pytest.mark.parametrize("stacked", [True, False])
def test_inverses_that_lie_elsewhere_than_said_are_noticed(tmp_path: Path, stacked: bool) -> None:
    """Relation `i` of four turns a ring of 60 by `i + 1` steps, and its inverse back."""
    size = 60
    steps = torch.arange(1.0, 5.0)
    graph = Graph.of(
        [(f"e{e}", f"r{i}", f"e{(e + i) % size}") for e in range(size) for i in range(1, 5)]
    )
    order = torch.tensor([int(label[1:]) for label in graph.entities.labels])
    turns = torch.cat((steps, -steps)) if stacked else torch.stack((steps, -steps), 1).flatten()
    tables = [
        torch.stack((a.cos(), a.sin()), 1)
        for a in (order * 2 * torch.pi / size, turns * 2 * torch.pi / size)
    ]
    path = save_kbc(tmp_path / "kbc.pt", *tables)
    right, wrong = ("stacked", "interleaved") if stacked else ("interleaved", "stacked")
    model = read_import(path, reciprocal=right).align(graph)
    heads, relations, tails = torch.from_numpy(graph.train).long().T
    assert torch.equal(model.logits(heads, relations).argmax(1), tails)
    assert torch.equal(model.logits(tails, relations + 1).argmax(1), heads)
    with pytest.raises(RunError, match=f"with {right} of 1.000; give `reciprocal='{right}'`"):
        read_import(path, reciprocal=wrong).align(graph)


def test_inverses_that_score_all_alike_are_no_reason_to_read_a_checkpoint_otherwise(
    tmp_path: Path,
) -> None:
    """Inverses that were never learned rank the right answers no better than others."""
    size = 60
    random = torch.Generator().manual_seed(0)
    graph = Graph.of(
        [(f"e{e}", f"r{i}", f"e{(e + i) % size}") for e in range(size) for i in range(1, 5)]
    )
    relations = torch.randn(8, 2, generator=random)
    relations[1::2] = 0.0
    path = save_kbc(tmp_path / "kbc.pt", torch.randn(size, 2, generator=random), relations)
    assert read_import(path).align(graph).num_relations == 8
    line = Graph.of([(f"e{e}", "next", f"e{e + 1}") for e in range(1200)])
    zeros = read_import(save_kbc(path, torch.zeros(1201, 2), torch.zeros(2, 2)))
    with pytest.raises(RunError, match="as chance would"):
        zeros.align(line)


def test_ids_in_another_order_are_noticed(tmp_path: Path) -> None:
    """A ring of 1,200 in the graph's order of entities, and checkpoints in two orders."""
    size = 1200
    graph = Graph.of([(f"e{e}", "next", f"e{(e + 1) % size}") for e in range(size)])
    order = torch.tensor([int(label[1:]) for label in graph.entities.labels]) * 2 * torch.pi / size
    turns = torch.tensor([1.0, -1.0]) * 2 * torch.pi / size
    entities, relations = (torch.stack((a.cos(), a.sin()), 1) for a in (order, turns))
    assert (
        read_import(save_kbc(tmp_path / "kbc.pt", entities, relations)).align(graph).num_entities
        == size
    )
    entities = entities[torch.randperm(size, generator=torch.Generator().manual_seed(0))]
    with pytest.raises(
        RunError, match=r"with an MRR of 0\.0\d\d\d, as chance would: its ids mean others"
    ):
        read_import(save_kbc(tmp_path / "kbc.pt", entities, relations)).align(graph)


@pytest.mark.filterwarnings("ignore")
def test_a_saved_directory_follows_the_labels_of_the_graph(nations: Any, tmp_path: Path) -> None:
    theirs, factory = pykeen_model(nations, "ComplEx", inverse=False)
    torch.save(theirs, tmp_path / "trained_model.pkl")
    factory.to_path_binary(tmp_path / "training_triples")
    imported = read_import(tmp_path, trust_pickle=True)
    own = imported.graph("nations")
    assert len(own.train) == factory.num_triples
    assert own.entities.labels == sorted(factory.entity_to_id)

    # ids of its own, fewer than the model's
    graph = Graph.of([("usa", "embassy", "china"), ("uk", "treaties", "usa")])
    run = import_run(imported, graph, tmp_path / "run", "nations")
    model = load_model(run)
    pair = torch.tensor([[factory.entity_to_id["uk"], factory.relation_to_id["treaties"]]])
    with torch.inference_mode():
        expected = theirs.predict_t(pair)[
            0, [factory.entity_to_id[label] for label in graph.entities]
        ]
    found = model.logits(
        torch.tensor([graph.entities.id("uk")]), torch.tensor([graph.relations.id("treaties")])
    )
    assert torch.allclose(found[0], expected, atol=1e-4)

    with pytest.raises(RunError, match="lacks 1 of the graph's 2 entity labels, such as 'mars'"):
        imported.align(Graph.of([("usa", "embassy", "mars")]))
    with pytest.raises(RunError, match="lacks 1 of the graph's 1 relation labels"):
        imported.align(Graph.of([("usa", "invades", "china")]))


@pytest.mark.filterwarnings("ignore")
def test_a_damaged_directory_is_named(nations: Any, tmp_path: Path) -> None:
    theirs, factory = pykeen_model(nations, "DistMult", inverse=False)
    torch.save(theirs, tmp_path / "trained_model.pkl")
    with pytest.raises(DataError, match=r"entity_to_id\.tsv\.gz: no such file"):
        read_import(tmp_path, trust_pickle=True)
    factory.to_path_binary(tmp_path / "training_triples")
    labels = tmp_path / "training_triples" / "relation_to_id.tsv.gz"
    for text, message in (
        ("id\tlabel\n1\tp\n", "one label for each id"),
        ("id\n0\n", "without 2 columns"),
    ):
        labels.write_bytes(gzip.compress(text.encode()))
        with pytest.raises(DataError, match=message):
            read_import(tmp_path, trust_pickle=True)
    labels.write_bytes(gzip.compress(b"id\tlabel\n0\tp\n"))
    with pytest.raises(DataError, match="not those of its model"):
        read_import(tmp_path, trust_pickle=True)
    facts = tmp_path / "training_triples" / "numeric_triples.tsv.gz"
    for row, message in (
        ("0\tx\t1", "other than ids"),
        (f"0\t0\t{2**31}", "other than ids"),
        ("0\t9\t1", "no labels"),
    ):
        facts.write_bytes(gzip.compress(f"head\trelation\ttail\n{row}\n".encode()))
        with pytest.raises(DataError, match=message):
            read_triples(tmp_path, 3, 4)
    (tmp_path / "trained_model.pkl").write_bytes(b"damaged")
    with pytest.raises(DataError, match="cannot be opened"):
        read_import(tmp_path, trust_pickle=True)


def test_a_file_that_is_no_checkpoint_is_named_without_the_reader_s_own_advice(
    tmp_path: Path,
) -> None:
    (tmp_path / "notes.pt").write_text("not a checkpoint")
    with pytest.raises(DataError) as caught:
        read_kbc(tmp_path / "notes.pt")
    assert "notes.pt: is no checkpoint of plain tensors; nothing in it was executed" in str(
        caught.value
    )
    assert "weights_only" not in str(caught.value)


def test_relations_that_are_called_as_inverses_are_refused_by_name() -> None:
    labels = Vocabulary(["a", "b"]), Vocabulary(["likes", "likes^-1"], "relation")
    imported = Imported(ComplEx(2, 4, 1), *labels, np.array([[0, 0, 1], [1, 2, 0]], dtype=np.int32))
    with pytest.raises(
        DataError, match=r"^saved: has both 'likes' and 'likes\^-1', which is what the inverse"
    ):
        imported.graph("saved")
