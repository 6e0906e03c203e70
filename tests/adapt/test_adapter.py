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
GRAPH = Graph.of(
    [(NAMES[i], f"r{i % 3}", NAMES[(i * 2 + 1) % 9]) for i in range(9)] + [("e0", "r0", "e4")]
)


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
    scorer = model()
    options = {"calibration": scores, "search": search, "k": 3}
    plain = Engine(GRAPH, scorer, **options).reasoner
    adapted = {}
    for case in product(CONDITIONS, (1, 2)):
        untrained = Adapter(scorer, *case).requires_grad_(False).eval()
        calibrated = Adapted(calibration(scores, KnownFacts(GRAPH.index())), untrained)
        adapted[case] = calibrated, Engine(GRAPH, scorer, adapter=calibrated, **options).reasoner
    random = np.random.default_rng(0)
    # every step that a plan can have
    for shape in (SHAPES[name] for name in ("1p", "2p", "2in", "pni", "up")):
        entities = torch.from_numpy(random.integers(0, GRAPH.num_entities, (6, shape.num_entities)))
        relations = torch.from_numpy(
            random.integers(0, GRAPH.num_relations, (6, shape.num_relations))
        )
        query = shape.plan, entities, relations
        values = plain.scores(*query)
        order = plain.ranking(*query)
        for case, (calibrated, reasoner) in adapted.items():
            assert torch.equal(reasoner.scores(*query), values), (shape.name, *case)
            if calibrated.capabilities.monotone:
                assert torch.equal(reasoner.ranking(*query), order), (shape.name, *case)


@pytest.mark.parametrize("condition", ["none", "p", "sp"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("scores", ["sigmoid", "softmax-count"])
def test_an_adapter_keeps_the_order_of_a_row(condition: str, layers: int, scores: str) -> None:
    scorer = model()
    adapted = Adapted(
        calibration(scores, KnownFacts(GRAPH.index())),
        moved(Adapter(scorer, condition, layers), 2.0),
    )
    assert adapted.capabilities.monotone
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
    assert not Adapted(Sigmoid(), Adapter(model(), "spo")).capabilities.monotone


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("name", [*MODELS])
def test_atoms_alone_and_in_rows_are_adapted_alike(layers: int, name: str) -> None:
    scorer = model(name)
    adapter = moved(Adapter(scorer, "spo", layers))
    heads = torch.tensor([0, 3, 8])
    relations = torch.tensor([1, 0, 5])
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
        # magnitudes sum to 5
        scorer.relations.weight.copy_(torch.tensor([[2.0, 3.0], [-2.0, 3.0]]))
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
    with pytest.raises(SettingsError, match="TableScorer does not have; use `condition='p'`"):
        Adapter(scorer, "sp")


@pytest.mark.parametrize("condition", ["none", "p", "sp"])
def test_minmax_is_refused_with_the_reason(condition: str) -> None:
    with pytest.raises(
        SettingsError,
        match=r"is 'minmax', under which an adapter on .* does nothing: .* re-scales to \[0, 1\]",
    ):
        AdaptSettings(calibration="minmax", condition=condition)


def test_minmax_does_undo_an_adapter() -> None:
    scorer = FactorScorer([np.random.default_rng(0).uniform(0.1, 0.9, (4, 4))])
    logits = scorer.logits(torch.arange(4), torch.zeros(4, dtype=torch.long))
    heads = torch.arange(4)
    relations = torch.zeros(4)
    torch.testing.assert_close(
        MinMax()(logits, heads, relations), MinMax()(logits * 2.5 - 1, heads, relations)
    )


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
        ({"observed": "tset"}, "observed names no split 'tset'"),
        ({"observed": "train+valid"}, "which hands over facts that an adapter learns from"),
        ({"observed": "test"}, "observed is test, which hands over facts"),
        ({"recipe": "mine"}, "recipe is 'mine'; it must be one of asked, paper"),
        (
            {"recipe": "paper", "loss": "log"},
            "loss is log, and with `recipe='paper'` it must be 1vsall",
        ),
        (
            {"recipe": "paper", "held_out": True},
            "held_out is True, and with `recipe='paper'` it must be False",
        ),
    ],
)
def test_settings_out_of_range_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        AdaptSettings(**values)  # type: ignore[arg-type]


def test_recipes_by_hand() -> None:
    decided = ("loss", "calibration", "observed", "held_out", "condition", "logic", "shapes")
    asked_recipe, paper = (AdaptSettings(recipe=name) for name in ("asked", "paper"))
    four = ("2i", "3i", "2in", "3in")
    assert [getattr(paper, name) for name in decided] == [
        "1vsall",
        "sigmoid",
        (),
        False,
        "p",
        "product",
        four,
    ]
    train = ("train",)
    assert [getattr(asked_recipe, name) for name in decided] == [
        "log",
        "softmax-count",
        train,
        None,
        "p",
        "product",
        four,
    ]
    # the way it is asked
    assert asked_recipe.engine == {
        name: getattr(EngineSettings(rules=False), name) for name in asked_recipe.engine
    }
    for has_valid, observed in ((True, train), (False, ())):
        settled = asked_recipe.with_derived(has_valid)
        assert (settled.held_out, settled.observed) == (has_valid, observed)
    assert AdaptSettings(calibration="sigmoid").loss == "log"
    assert AdaptSettings.of(paper.to_dict()) == paper


def test_settings_survive_a_file() -> None:
    settings = AdaptSettings(shapes=("2i", "2in"), held_out=True, memory=2.0)
    assert AdaptSettings.of(settings.to_dict()) == settings
    with pytest.raises(SettingsError, match="unknown adaptation setting 'stepz'"):
        AdaptSettings.of({"stepz": 3})


def test_what_is_written_to_an_adapter_counts_from_the_next_question_on() -> None:
    """Writes in place count at once; those by `.data` count once the engine forgets."""
    graph = Graph.of([("a", "r", "b")])
    scorer = TableScorer([np.full((2, 2), 0.5)])  # logits of 0: a shift by 2 makes σ(2) of them
    adapter = Adapter(scorer, "p").requires_grad_(False).eval()
    settings = {
        "adapter": Adapted(Sigmoid(), adapter),
        "calibration": "sigmoid",
        "observed": "none",
    }
    engine = Engine(graph, scorer, **settings)
    bias = adapter.bias
    assert engine.score("a", "r", "b").score == pytest.approx(0.5)
    adapter.load_state_dict(adapter.state_dict() | {"bias": torch.tensor([0.0, 2.0])})
    assert engine.score("a", "r", "b").score == pytest.approx(0.880797)
    assert engine.with_settings(search="exact").score("a", "r", "b").score == pytest.approx(
        0.880797
    )
    bias[1] = -2.0
    assert engine.score("a", "r", "b").score == pytest.approx(1 - 0.880797)
    bias.data[1] = 2.0
    engine.forget()
    assert engine.score("a", "r", "b").score == pytest.approx(0.880797)


def test_what_an_adapter_makes_of_a_relation_follows_the_vectors_of_the_link_predictor() -> None:
    scorer = model()
    adapter = moved(Adapter(scorer, "p").requires_grad_(False))
    adapter.table()
    before = adapter.table()
    assert adapter.table()[0] is before[0]  # made once
    weight: torch.Tensor = scorer.relations.storage  # type: ignore[attr-defined]
    weight.neg_()
    inner = weight * adapter._features["p"].factor @ adapter.first["p"] + adapter.bias
    torch.testing.assert_close(adapter.table()[1], inner[:, 1])
    assert not torch.equal(adapter.table()[1], before[1])


def test_parts_that_were_made_for_another_graph_are_refused() -> None:
    other = Graph.of([("a", "r", "b"), ("b", "q", "c")])
    scorer = ComplEx(other.num_entities, other.num_relations, 4).requires_grad_(False)
    adapted = Adapted(Sigmoid(), Adapter(scorer, "p").requires_grad_(False).eval())
    with pytest.raises(SettingsError, match="the adapter knows 3 entities, the graph has 9"):
        Engine(GRAPH, model(), adapter=adapted, calibration="sigmoid")
    with pytest.raises(SettingsError, match="the reasoner knows 3 entities, the graph has 9"):
        Engine(GRAPH, model(), reasoner=Engine(other, scorer).search)


def adapted_engine(**changes: object) -> Engine:
    """An adapter that shifts logits of 0 by 2, in place of softmax-count and strength 1."""
    adapter = Adapter(TableScorer([np.full((2, 2), 0.5)]), "none").requires_grad_(False).eval()
    adapter.load_state_dict({"bias": torch.tensor([0.0, 2.0])})
    calibrated = Adapted(Sigmoid(), adapter)
    calibrated.unadapted_defaults = {"calibration": "softmax-count", "strength": 1.0}
    own = {"calibration": "sigmoid", "strength": 3.0, "observed": "none"}
    return Engine(
        Graph.of([("a", "r", "b")]),
        TableScorer([np.full((2, 2), 0.5)]),
        adapter=calibrated,
        **own,
        **changes,
    )


@pytest.mark.parametrize(
    ("change", "restore"),
    [
        ({"adapted": False}, {"adapted": True}),
        ({"adapted": False, "calibration": "minmax"}, {"adapted": True}),
        ({"preset": "qto"}, {"preset": None}),
        ({"preset": "fit", "k": 256}, {"preset": None}),
        ({"search": "exact"}, {"search": "auto"}),
        ({"search": "symbolic"}, {"search": "auto"}),
        ({"strength": 2.0}, {"strength": 3.0}),
    ],
)
def test_there_and_back_again_an_engine_is_what_it_was(
    change: dict[str, object], restore: dict[str, object]
) -> None:
    engine = adapted_engine()
    changed = engine.with_settings(**change)  # type: ignore[arg-type]
    assert changed.config != engine.config
    again = changed.with_settings(**restore)  # type: ignore[arg-type]
    assert again.config == engine.config
    assert again.score("a", "r", "b").score == pytest.approx(0.880797)
    # what says nothing of an adapter brings none back
    narrow = changed.with_settings(k=7)
    assert narrow.config == changed.config | {"k": 7}
    assert narrow.with_settings(**restore).settings.k == 7  # type: ignore[arg-type]


def test_an_adapter_that_is_left_out_stays_so_until_it_is_asked_for() -> None:
    engine = adapted_engine()
    counted = Engine(
        GRAPH,
        model(),
        adapter=Adapted(calibration("softmax-count"), Adapter(model(), "none").eval()),
    )
    moved_away = counted.with_settings(search="continuous").with_settings(candidates="rows")
    assert (moved_away.adapter, moved_away.settings.calibration) == (None, "sigmoid")
    assert (
        moved_away.with_settings(search="auto").config
        == counted.with_settings(candidates="rows").config
    )
    plain = (
        engine.with_settings(adapted=False).with_settings(preset="qto").with_settings(preset=None)
    )
    assert plain.score("a", "r", "b").score == pytest.approx(
        engine.with_settings(adapted=False).score("a", "r", "b").score
    )
    assert plain.adapter is None
    assert (
        engine.with_settings(preset="qto").with_settings(adapted=True).adapter is None
    )  # a preset has none
    with pytest.raises(
        SettingsError, match="calibration is 'minmax', and the adapter was trained for 'sigmoid'"
    ):
        engine.with_settings(adapted=False).with_settings(adapted=True, calibration="minmax")


def test_settings_given_while_an_adapter_is_left_out_are_not_replaced_by_its_own() -> None:
    adapter = Adapted(calibration("softmax-count"), Adapter(model(), "none").eval())
    adapter.unadapted_defaults = {"calibration": "softmax-count", "logic": "product"}
    own = EngineSettings(calibration="softmax-count", logic="godel")
    away = Engine(GRAPH, model(), own, adapter=adapter).with_settings(search="continuous")
    sigmoid = away.with_settings(calibration="sigmoid")
    assert sigmoid.with_settings(k=7).config == sigmoid.config | {"k": 7}
    assert sigmoid.with_settings().config == sigmoid.config
    chosen = away.with_settings(logic="lukasiewicz").with_settings(search="exact")
    assert (chosen.adapter, chosen.settings.logic) == (adapter, "lukasiewicz")
    without = Engine(GRAPH, model(), own, adapter=adapter).with_settings(adapted=False)
    asked_for = without.with_settings(logic="lukasiewicz").with_settings(adapted=True)
    assert (asked_for.adapter, asked_for.settings.logic) == (adapter, "lukasiewicz")
    assert without.with_settings(adapted=True).settings == own
    back = sigmoid.with_settings(adapted=True)
    assert (back.adapter, back.settings.calibration) == (adapter, "softmax-count")


def test_settings_that_a_change_overruled_come_back_with_it() -> None:
    settings = EngineSettings(calibration="minmax", strength=2.0, k=9)
    for change, between, restore in (
        ({"search": "continuous", "steps": 5}, {"steps": 7}, {"search": "beam"}),
        ({"preset": "qto"}, {"k": 5}, {"preset": None}),
        ({"preset": "fit"}, {"search": "continuous"}, {"preset": None, "search": "auto"}),
    ):
        changed_settings = settings.changed(**change).changed(**between)
        assert changed_settings.calibration != "minmax", change
        returned = changed_settings.changed(**restore)
        assert (returned.calibration, returned.strength) == ("minmax", 2.0), change
    chosen = (
        settings.changed(search="continuous")
        .changed(calibration="softmax-count")
        .changed(search="beam")
    )
    assert chosen.calibration == "softmax-count"  # what was given since goes before
