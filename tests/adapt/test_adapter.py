"""An adapter starts as the identity, keeps the order of scores, and refuses to do nothing."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch

from tables import FactorScorer, TableScorer
from tacit.adapt.adapter import Adapter
from tacit.adapt.calibrated import Adapted
from tacit.adapt.settings import CONDITIONS, AdaptSettings
from tacit.engine.atoms.calibration import MinMax, Sigmoid, calibration
from tacit.engine.atoms.known_facts import KnownFacts
from tacit.engine.engine import Engine
from tacit.engine.settings import EngineSettings
from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.links.models import MODELS, ComplEx
from tacit.links.scorer import Scorer
from tacit.query.sampling.shapes import SHAPES

NAMES = [f"e{i}" for i in range(9)]
GRAPH = Graph.of([(NAMES[i], f"r{i % 3}", NAMES[(i * 2 + 1) % 9]) for i in range(9)] + [("e0", "r0", "e4")])


def model(name: str = "complex", rank: int = 4) -> Scorer:
    made = MODELS[name](GRAPH.num_entities, GRAPH.num_relations, rank)
    made.reset(1.0, torch.Generator().manual_seed(0))
    return made.requires_grad_(False)


def moved(adapter: Adapter, size: float = 1.0) -> Adapter:
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for weight in adapter.parameters():
            weight.copy_(torch.randn(weight.shape, generator=generator) * size)
    return adapter.eval()


@pytest.mark.parametrize("scores", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize("search", ["beam", "exact"])
def test_an_untrained_adapter_changes_no_bit_of_any_score(scores: str, search: str) -> None:
    scorer, options = model(), {"calibration": scores, "search": search, "k": 3}
    plain, adapted = Engine(GRAPH, scorer, **options).reasoner, {}
    for case in product(CONDITIONS, (1, 2)):
        untrained = Adapter(scorer, *case).requires_grad_(False).eval()
        calibrated = Adapted(calibration(scores, KnownFacts(GRAPH.index())), untrained)
        adapted[case] = calibrated, Engine(GRAPH, scorer, adapter=calibrated, **options).reasoner
    random = np.random.default_rng(0)
    for shape in (SHAPES[name] for name in ("1p", "2p", "2in", "pni", "up")):  # every step that a plan can have
        entities = torch.from_numpy(random.integers(0, GRAPH.num_entities, (6, shape.num_entities)))
        relations = torch.from_numpy(random.integers(0, GRAPH.num_relations, (6, shape.num_relations)))
        asked = shape.plan, entities, relations
        values, order = plain.scores(*asked), plain.ranking(*asked)
        for case, (calibrated, reasoner) in adapted.items():
            assert torch.equal(reasoner.scores(*asked), values), (shape.name, *case)
            if calibrated.monotone:
                assert torch.equal(reasoner.ranking(*asked), order), (shape.name, *case)


@pytest.mark.parametrize("condition", ["none", "p", "sp"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("scores", ["sigmoid", "softmax-count"])
def test_an_adapter_keeps_the_order_of_a_row(condition: str, layers: int, scores: str) -> None:
    scorer = model()
    adapted = Adapted(calibration(scores, KnownFacts(GRAPH.index())), moved(Adapter(scorer, condition, layers), 2.0))
    assert adapted.monotone
    heads = torch.arange(GRAPH.num_entities).repeat(GRAPH.num_relations)
    relations = torch.arange(GRAPH.num_relations).repeat_interleave(GRAPH.num_entities)
    logits = scorer.logits(heads, relations)
    order = logits.argsort(1)
    ordered = adapted(logits.clone(), heads, relations).gather(1, order)
    assert (ordered.diff(dim=1) >= 0).all()
    scale, shift = adapted.adapter(heads, relations)
    assert (scale > 0).all()
    assert ((scale - 1).abs() > 1e-3).all()  # it does something
    assert shift.any()


def test_one_that_sees_the_tail_need_not_keep_it() -> None:
    assert not Adapted(Sigmoid(), Adapter(model(), "spo")).monotone


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", [*MODELS])
def test_atoms_alone_and_in_rows_are_adapted_alike(layers: int, name: str) -> None:
    scorer = model(name)
    adapter = moved(Adapter(scorer, "spo", layers))
    heads, relations = torch.tensor([0, 3, 8]), torch.tensor([1, 0, 5])
    scale, shift = adapter(heads, relations)
    assert scale.shape == shift.shape == (3, GRAPH.num_entities)
    part = adapter(heads, relations, slice(2, 6))
    alone = adapter(heads, relations, torch.tensor([2, 4, 7]))
    torch.testing.assert_close(part[0], scale[:, 2:6])
    torch.testing.assert_close(alone[0][:, 0], scale[torch.arange(3), [2, 4, 7]])
    torch.testing.assert_close(alone[1][:, 0], shift[torch.arange(3), [2, 4, 7]])


def test_scale_and_shift_are_those_of_the_formula() -> None:
    scorer = ComplEx(2, 2, 1).requires_grad_(False)
    with torch.no_grad():
        scorer.relations.weight.copy_(torch.tensor([[2.0, 3.0], [-2.0, 3.0]]))  # magnitudes sum to 5
    adapter = Adapter(scorer, "p")
    with torch.no_grad():
        adapter.first["p"].copy_(torch.tensor([[1.0, 0.5], [0.0, 0.5]]))
        adapter.bias.copy_(torch.tensor([0.0, 0.1]))
    scale, shift = adapter.table()
    # a = 2/5 and -2/5; b = (2 + 3)/10 + 0.1 and (3 - 2)/10 + 0.1
    torch.testing.assert_close(scale, torch.tensor([1.4, float(np.exp(-0.4))]))
    torch.testing.assert_close(shift, torch.tensor([0.6, 0.2]))


def test_parameters_are_counted() -> None:
    scorer = ComplEx(3, 4, 1000)
    assert Adapter(scorer, "p").num_parameters == 2 * 2000 + 2  # W of 2 x 2d, and a bias
    assert Adapter(scorer, "none").num_parameters == 2
    assert Adapter(scorer, "spo").num_parameters == 3 * 2 * 2000 + 2
    assert Adapter(scorer, "p", layers=2, hidden=8).num_parameters == 8 * 2000 + 8 + 8 * 2


def test_a_predictor_without_vectors_gets_two_numbers_per_relation() -> None:
    scorer = TableScorer([np.full((3, 3), 0.5)] * 2)
    assert Adapter(scorer, "p").num_parameters == 2 * 4 + 2
    with pytest.raises(SettingsError, match="TableScorer does not have; use condition p"):
        Adapter(scorer, "sp")


@pytest.mark.parametrize("condition", ["none", "p", "sp"])
def test_minmax_is_refused_with_the_reason(condition: str) -> None:
    with pytest.raises(SettingsError, match=r"does nothing under minmax.*undoes just that"):
        Adapted(MinMax(), Adapter(model(), condition))
    with pytest.raises(SettingsError, match="does nothing under minmax"):
        AdaptSettings(calibration="minmax", condition=condition)


def test_minmax_does_undo_an_adapter() -> None:
    scorer = FactorScorer([np.random.default_rng(0).uniform(0.1, 0.9, (4, 4))])
    logits, heads, relations = (
        scorer.logits(torch.arange(4), torch.zeros(4, dtype=torch.long)),
        torch.arange(4),
        torch.zeros(4),
    )
    torch.testing.assert_close(MinMax()(logits, heads, relations), MinMax()(logits * 2.5 - 1, heads, relations))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"condition": "po"}, "condition is 'po'; it must be one of none, p, sp, spo"),
        ({"layers": 3}, "layers is 3; it must be one of 1, 2"),
        ({"loss": "hinge"}, "loss is 'hinge'; it must be one of 1vsall, bce, log"),
        ({"share": 1.5}, "share is 1.5; it must be at most 1"),
        ({"share": 0.0}, "share is 0.0; it must be above 0"),
        ({"seed": -1}, "seed is -1; it must be 0 or more"),
        ({"steps": 0}, "steps is 0; it must be at least 1"),
        ({"lr": float("nan")}, "lr is nan; it must be a finite number"),
        ({"memory": -1.0}, "memory is -1.0; it must be above 0"),
        ({"observed": "tset"}, "no split 'tset' to observe"),
        ({"observed": "train+valid"}, "which hands over facts that an adapter learns from"),
        ({"observed": "test"}, "observed is test, which hands over facts"),
        ({"recipe": "mine"}, "recipe is 'mine'; it must be one of asked, paper"),
        ({"recipe": "paper", "loss": "log"}, "loss is log, which is not the paper's"),
        ({"recipe": "paper", "held_out": True}, "held_out is True, which is not the paper's"),
    ],
)
def test_settings_out_of_range_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        AdaptSettings(**values)  # type: ignore[arg-type]


def test_recipes_by_hand() -> None:
    decided = ("loss", "calibration", "observed", "held_out", "condition", "logic", "shapes")
    asked, paper = (AdaptSettings(recipe=name) for name in ("asked", "paper"))
    four = ("2i", "3i", "2in", "3in")
    assert [getattr(paper, name) for name in decided] == ["1vsall", "sigmoid", (), False, "p", "product", four]
    train = ("train",)
    assert [getattr(asked, name) for name in decided] == ["log", "softmax-count", train, None, "p", "product", four]
    assert asked.engine == {name: getattr(EngineSettings(), name) for name in asked.engine}  # the way it is asked
    for has_valid, observed in ((True, train), (False, ())):
        settled = asked.settled(has_valid)
        assert (settled.held_out, settled.observed, settled.masks) == (has_valid, observed, has_valid)
    assert AdaptSettings(calibration="sigmoid").loss == "log"
    assert AdaptSettings.of(paper.to_dict()) == paper


def test_settings_survive_a_file() -> None:
    settings = AdaptSettings(shapes=("2i", "2in"), held_out=True, memory=2.0)
    assert AdaptSettings.of(settings.to_dict()) == settings
    with pytest.raises(SettingsError, match="unknown adaptation setting 'stepz'"):
        AdaptSettings.of({"stepz": 3})
