"""Each loss against its formula term by term, and its gradient by finite differences."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
import torch

from tables import FactorScorer, TableScorer
from tacit.adapt import streamed_loss
from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.adapt.query_loss import QueryLoss
from tacit.adapt.training_queries import Batch
from tacit.engine.atoms.atoms import Atoms
from tacit.engine.atoms.calibration import calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.logic import Logic
from tacit.engine.search.message_reasoner import MessageReasoner
from tacit.graph.fact_index import FactIndex
from tacit.links.models import ComplEx
from tacit.links.scorer import Scorer
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet
from tacit.query.sampling.shapes import SHAPES

# entities, relations (inverses apart)
N = 7
R = 4
FACTS = FactIndex(np.array([[0, 0, 1], [0, 0, 3], [2, 2, 5], [1, 4, 6]]), 2 * R)


def scorer(kind: type[TableScorer] = TableScorer) -> TableScorer:
    random = np.random.default_rng(3)
    return kind([random.uniform(0.05, 0.9, (N, N)) for _ in range(R)])


def some_queries(shape: str, number: int = 5) -> QuerySet:
    random = np.random.default_rng(4)
    plan = SHAPES[shape].plan
    sets = [random.permutation(N)[:4] for _ in range(number)]
    return QuerySet(
        SHAPES[shape],
        random.integers(0, N, (number, plan.num_entities)).astype(np.int32),
        random.integers(0, 2 * R, (number, plan.num_relations)).astype(np.int32),
        AnswerSets.of([one[:2].tolist() for one in sets]),
        AnswerSets.of([one[2:].tolist() for one in sets]),
    )


def moved_adapter(on: Scorer) -> Adapter:
    adapter = Adapter(on, "p")
    with torch.no_grad():
        for weight in adapter.parameters():
            weight.copy_(
                torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)) * 0.4
            )
    return adapter


def make_loss(
    name: str,
    *,
    on: Scorer,
    adapter: Adapter,
    masked: bool = False,
    scores: str = "sigmoid",
    norm: str = "product",
    strength: float = 1.0,
    facts: KnownFacts | None = None,
) -> QueryLoss:
    adapted = Adapted(calibration(scores, KnownFacts(FACTS)), adapter)
    reasoner = MessageReasoner(Atoms(on, adapted, facts), Logic(norm, "standard", strength), k=N)
    return QueryLoss(reasoner, name, masked, np.random.default_rng(0))


def batch_of(queries: QuerySet) -> Batch:
    return Batch(queries, queries.hard.ids[queries.hard.offsets[:-1]].astype(np.int64))


def by_hand(
    queries: QuerySet,
    targets: list[int],
    on: TableScorer,
    adapter: Adapter,
    name: str,
    masked: bool,
) -> float:
    """Eq. 6, or the same with log-scores, for 2in queries: `c(h1, r1, t) · (1 - c(h2, r2, t))`."""
    scale, shift = (column.tolist() for column in adapter.table())

    def calibrated(head: int, relation: int, tail: int) -> float:
        logit = float(on._logits[relation, head, tail])
        return 1 / (1 + math.exp(-(logit * scale[relation] + shift[relation])))

    loss = 0.0
    for q, target in enumerate(targets):
        (h1, h2), (r1, r2) = queries.entities[q].tolist(), queries.relations[q].tolist()
        score = [calibrated(h1, r1, t) * (1 - calibrated(h2, r2, t)) for t in range(N)]
        value = [math.log(s) for s in score] if name == "log" else score
        others = (
            {*queries.easy[q].tolist(), *queries.hard[q].tolist()} - {target} if masked else set()
        )
        total = sum(math.exp(value[t]) for t in range(N) if t not in others)
        loss += -value[target] + math.log(total)
    return loss


@pytest.mark.parametrize(("name", "masked"), [*product(("1vsall", "log"), (False, True))])
def test_losses_against_their_formulas(name: str, masked: bool) -> None:
    on = scorer()
    adapter = moved_adapter(on)
    batch = batch_of(some_queries("2in"))
    loss = make_loss(name, on=on, adapter=adapter, masked=masked)([batch])
    assert loss.item() == pytest.approx(
        by_hand(batch.queries, batch.targets.tolist(), on, adapter, name, masked), rel=1e-5
    )


CASES = [
    *product(
        ("2i", "3i", "2in", "3in", "1p"),
        ("1vsall", "log", "bce"),
        ("sigmoid",),
        ("product",),
        (1.0,),
    ),
    *product(("2i", "3in"), ("1vsall", "log"), ("softmax-count",), ("product",), (1.0, 3.0)),
    *product(("2in", "3in"), ("1vsall", "log"), ("sigmoid",), ("product",), (0.5, 1.5)),
    *product(("2p", "pin", "2u"), ("1vsall", "log", "bce"), ("sigmoid",), ("product",), (1.0,)),
    *product(("3in",), ("1vsall", "log"), ("sigmoid",), ("godel", "lukasiewicz"), (1.0,)),
]


@pytest.mark.parametrize(("shape", "name", "scores", "norm", "strength"), CASES)
def test_gradients_are_those_of_finite_differences(
    shape: str, name: str, scores: str, norm: str, strength: float
) -> None:
    on = scorer(FactorScorer)
    adapter = moved_adapter(on)
    batch = batch_of(some_queries(shape))
    settings = {
        "on": on,
        "adapter": adapter,
        "scores": scores,
        "norm": norm,
        "strength": strength,
        "masked": True,
    }

    def loss() -> torch.Tensor:
        return make_loss(name, **settings)([batch])  # type: ignore[arg-type]

    middle = loss()
    middle.backward()
    step = 2e-3
    slack = 5e-3
    for weight in adapter.parameters():
        assert weight.grad is not None
        for at in np.ndindex(*weight.shape):
            sides = []
            for move in (step, -step):
                with torch.no_grad():
                    weight[at] += move
                    sides.append((loss() - middle).item() / move)
                    weight[at] -= move
            # Where the minimum changes its atom, any slope between the two sides is right.
            assert min(sides) - slack < float(weight.grad[at]) < max(sides) + slack


@pytest.mark.parametrize("shape", ["1p", "2i", "3i", "2in", "3in"])
@pytest.mark.parametrize("name", ["1vsall", "log"])
@pytest.mark.parametrize(
    ("scores", "strength", "known"), [("sigmoid", 1.0, False), ("softmax-count", 2.0, True)]
)
def test_streaming_changes_nothing(
    shape: str, name: str, scores: str, strength: float, known: bool
) -> None:
    on = scorer(FactorScorer)
    found = []
    for streamed in (True, False):
        adapter = moved_adapter(on)
        facts = KnownFacts(FACTS) if known else None
        loss = make_loss(
            name, on=on, adapter=adapter, masked=True, scores=scores, strength=strength, facts=facts
        )
        assert loss.streamed is not None
        if not streamed:
            loss.__dict__["streamed"] = None
        value = loss([batch_of(some_queries(shape, 40))])
        value.backward()
        found.append([value.detach(), *(weight.grad for weight in adapter.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("condition", "layers"), [("none", 1), ("p", 2), ("sp", 1), ("sp", 2)])
def test_streaming_changes_nothing_whatever_the_adapter_sees(condition: str, layers: int) -> None:
    model = ComplEx(N, 2 * R, 3)
    model.reset(1.0, torch.Generator().manual_seed(0))
    found = []
    for streamed in (True, False):
        adapter = Adapter(model.requires_grad_(False), condition, layers, hidden=5)
        with torch.no_grad():
            for weight in adapter.parameters():
                weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(2)))
        loss = make_loss("log", on=model, adapter=adapter)
        if not streamed:
            loss.__dict__["streamed"] = None
        value = loss([batch_of(some_queries("3in", 20))])
        value.backward()
        found.append([value.detach(), *(weight.grad for weight in adapter.parameters())])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def plain_loss(
    batch: Batch, model: ComplEx, adapter: Adapter, shape: str, name: str, odds: bool
) -> torch.Tensor:
    """The loss in float64, every score of every entity written out."""
    literals = {"2i": (0, 0), "2in": (0, 1), "3in": (0, 0, 1)}[shape]
    entities, relations, targets = batch.slots(torch.device("cpu"))
    scale, shift = (part.double() for part in adapter.table())
    scores = []
    for i, negated in enumerate(literals):
        x = model.queries(entities[:, i], relations[:, i]).double() @ model.keys().double().T
        known = torch.zeros_like(x, dtype=torch.bool)
        for row, (head, relation) in enumerate(
            zip(entities[:, i].tolist(), relations[:, i].tolist(), strict=True)
        ):
            known[row, FACTS.tails(head, relation).tolist()] = True
        if odds:
            x = (
                (x.softmax(1) * known.sum(1, keepdim=True).clamp(min=1))
                .clamp(max=1 - 2**-10)
                .logit()
            )
        c = torch.sigmoid(x * scale[relations[:, i], None] + shift[relations[:, i], None])
        c = torch.where(known, 1 - 2**-10, c) if odds else c
        scores.append(1 - c if negated else c)
    product = torch.stack(scores).prod(0)
    value = product.log() if name == "log" else product
    others = torch.zeros_like(value, dtype=torch.bool)
    for row in range(len(batch)):
        others[row, batch.queries.easy[row].tolist() + batch.queries.hard[row].tolist()] = True
    right = value.gather(1, targets[:, None])[:, 0]
    return (
        torch.logaddexp(value.masked_fill(others, -torch.inf).logsumexp(1), right).sum()
        - right.sum()
    )


@pytest.mark.parametrize("where", ["one thread", "two threads", "as on a GPU"])
# rows: all there are, or fewer than a batch has, which is cut
@pytest.mark.parametrize("room", [1000, 40])
@pytest.mark.parametrize("name", ["1vsall", "log"])
@pytest.mark.parametrize("odds", [False, True])
def test_sums_on_the_way_are_those_of_the_plain_formula(
    odds: bool, name: str, room: int, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streamed_loss, "_CPU_BYTES", 1)  # blocks of 64 columns
    model = ComplEx(200, 2 * R, 6).requires_grad_(False)
    model.reset(0.8, torch.Generator().manual_seed(0))
    batches = {shape: batch_of(some_queries(shape, 40)) for shape in ("2i", "2in", "3in")}
    found = []
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if where == "two threads" else 1)
        for plain in (False, True):
            adapter = moved_adapter(model)
            facts, scores = (KnownFacts(FACTS), "softmax-count") if odds else (None, "sigmoid")
            loss = make_loss(
                name, on=model, adapter=adapter, masked=True, scores=scores, facts=facts
            )
            assert loss.streamed is not None
            loss.streamed.rows.capacity = room
            loss.streamed.rows.on_cpu = where != "as on a GPU"
            loss.streamed.block = 2**14  # few columns of so many rows
            if plain:
                values = [
                    plain_loss(batch, model, adapter, shape, name, odds)
                    for shape, batch in batches.items()
                ]
            else:
                values = [loss(part) for part in loss.parts(batches.values())]
                assert (len(values) == 1) == (room == 1000)
            value = torch.stack(values).sum()
            value.backward()
            found.append(
                [
                    value.detach().double(),
                    *(weight.grad.double() for weight in adapter.parameters()),
                ]
            )
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4 * float(other.abs().max()))


def test_what_is_no_sigmoid_is_not_streamed() -> None:
    on = scorer(FactorScorer)
    assert (
        make_loss("log", on=on, adapter=moved_adapter(on), scores="softmax-observed").streamed
        is None
    )


def test_negatives_are_no_answers() -> None:
    queries = some_queries("2i", 40)
    random = np.random.default_rng(0)
    drawn = np.stack(
        [Batch(queries, np.zeros(40, dtype=np.int64)).negatives(N, random) for _ in range(200)]
    )
    for q in range(40):
        answers = {*queries.easy[q].tolist(), *queries.hard[q].tolist()}
        assert set(drawn[:, q].tolist()) == set(range(N)) - answers


@pytest.mark.parametrize("shape", ["2p", "inp", "3p"])
def test_what_autograd_keeps_of_a_batch_stays_within_memory(shape: str) -> None:
    model = ComplEx(2000, 2 * R, 4).requires_grad_(False)
    adapted = Adapted(calibration("sigmoid", KnownFacts(FACTS)), Adapter(model, "p"))
    reasoner = MessageReasoner(Atoms(model, adapted), Logic(), k=50, memory=0.02)
    loss = QueryLoss(reasoner, "log", False, np.random.default_rng(0))
    queries = some_queries(shape, loss.most_queries(SHAPES[shape].plan))
    storages: dict[int, int] = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        loss([Batch(queries, np.zeros(len(queries), dtype=np.int64))])
    assert 1e6 < sum(storages.values()) <= reasoner.memory
