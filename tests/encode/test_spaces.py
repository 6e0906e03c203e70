"""Query embeddings: operators against formulas written again, and what must hold of them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Beta, kl_divergence

from encoder_runs import grid
from tacit.encode.layers import exact_products, rows
from tacit.encode.models import make_encoder
from tacit.encode.settings import EncodeSettings
from tacit.encode.spaces.beta import BetaE
from tacit.encode.spaces.cones import ConE
from tacit.encode.spaces.fuzzy import FuzzQE
from tacit.encode.spaces.space import Space
from tacit.encode.spaces.translations import GQE, Query2Box
from tacit.engine.engine import Engine

MODELS = {"betae": BetaE, "cone": ConE, "fuzzqe": FuzzQE}
ENTITIES = 9
RELATIONS = 4
# entities for each of six states
OWN = torch.tensor([[0, 8], [5, 1], [2, 2], [7, 3], [4, 0], [1, 6]])


def make_space(model: str, **changes: object) -> Space:
    """A small model in float64, with weights drawn by a seed."""
    settings = EncodeSettings.of(
        {"model": model, "width": 5, "hidden": 6, "bases": 3, **changes}
    ).with_derived(ENTITIES)
    space = {**MODELS, "gqe": GQE, "q2b": Query2Box}[model](ENTITIES, RELATIONS, settings)
    space.reset(torch.Generator().manual_seed(1))
    return space.double().eval()


def states_of(space: Space, *shape: int) -> Tensor:
    """States such as occur: projected ones."""
    ids = torch.arange(math.prod(shape)) % ENTITIES
    found = space.project(space.anchor(ids), ids % RELATIONS)
    return found.detach().view(*shape, space.width)


@pytest.mark.parametrize("model", ["gqe", "q2b"])
def test_a_state_meets_entities_of_its_own(model: str) -> None:
    space = make_space(model)
    states = states_of(space, 6)
    torch.testing.assert_close(space.match_of(states, OWN), space.match(states).gather(1, OWN))


@pytest.mark.parametrize("model", ["betae", "cone", "fuzzqe", "gqe", "q2b"])
def test_what_scoring_keeps_of_entities_is_of_the_weights_as_they_are(model: str) -> None:
    space = make_space(model).requires_grad_(False)
    states = states_of(space, 3)
    space.renew()
    before = space.match(states)
    space.load_state_dict(
        space.state_dict() | {"entities": space.get_parameter("entities").flip(0) / 2}
    )
    every = torch.arange(ENTITIES).expand(len(states), -1)
    torch.testing.assert_close(space.match(states), space.match_of(states, every))
    assert not torch.equal(space.match(states), before)


def test_gradients_of_rows_are_those_of_the_table() -> None:
    table = torch.rand(ENTITIES, 3, requires_grad=True)
    weights = torch.rand(*OWN.shape, 3)
    gradients = []
    for taken in (rows(table, OWN), table[OWN]):
        table.grad = torch.zeros_like(table)
        (taken * weights).sum().backward()
        gradients.append(table.grad)
    torch.testing.assert_close(*gradients)
    # no rows have no gradient, and are no error
    rows(table, torch.empty(0, dtype=torch.long)).sum().backward()


def test_divergences_are_those_of_beta_distributions() -> None:
    space = make_space("betae")
    states = states_of(space, 6) * 3
    (alpha, beta), (a, b) = states.chunk(2, 1), space.anchor(torch.arange(ENTITIES)).chunk(2, 1)
    expected = kl_divergence(Beta(a, b), Beta(alpha[:, None], beta[:, None])).sum(-1)
    torch.testing.assert_close(space.settings.margin - space.match(states), expected)
    torch.testing.assert_close(space.match_of(states, OWN), space.match(states).gather(1, OWN))


def test_cone_distances_are_those_of_raw_sines() -> None:
    space = make_space("cone")
    states = states_of(space, 6)
    axes, apertures = states[:, None].chunk(2, 2)
    gap = math.pi * torch.tanh(space.entities / 0.2) - axes
    centre = (gap / 2).sin().abs()
    bound = (apertures / 2).sin().abs()
    edge = torch.minimum(((gap + apertures) / 2).sin().abs(), ((gap - apertures) / 2).sin().abs())
    expected = (edge * (centre >= bound) + 0.02 * torch.minimum(centre, bound)).sum(
        -1
    ) * space.scale
    torch.testing.assert_close(space.settings.margin - space.match(states), expected)
    torch.testing.assert_close(space.match_of(states, OWN), space.match(states).gather(1, OWN))


@pytest.mark.parametrize(("recipe", "apart"), [("lean", 1.0), ("paper", 8.0)])
def test_how_far_a_step_turns_depends_on_the_width_as_published_alone(
    recipe: str, apart: float
) -> None:
    turned = []
    for width in (5, 40):
        space = make_space("cone", recipe=recipe, width=width, margin=12.0)
        with torch.no_grad():
            space.entities.zero_().add_(1e-4)
        turned.append(float(space.anchor(torch.arange(1)).detach()[0, 0]))
    assert turned[1] / turned[0] == pytest.approx(apart, rel=1e-5)


@pytest.mark.parametrize("recipe", ["lean", "paper"])
def test_where_tables_start(recipe: str) -> None:
    """As published, by margin and width; lean ones near each other but for a cone's shape."""
    wide, narrow = (
        make_space("betae", recipe=recipe, width=width, margin=8.0) for width in (50, 10)
    )
    cone = make_space("cone", recipe=recipe, width=50, margin=8.0)
    turns, apertures = cone.relations.chunk(2, 1)
    ranges = {"lean": (0.2, 0.4, 0.4, 0.02, 0.02, 0.2), "paper": (0.2, 1.0, 1.0, 0.2, 0.2, 0.2)}[
        recipe
    ]
    tables = wide.entities, narrow.entities, narrow.relations, cone.entities, turns, apertures
    for table, most in zip(tables, ranges, strict=True):
        assert 0.9 * most < float(table.detach().abs().max()) <= most * (1 + 1e-6)


def test_cosines_and_mixed_maps() -> None:
    space = make_space("fuzzqe")
    states = states_of(space, 6)
    relations = torch.tensor([0, 1, 2, 3, 1, 1])
    for row, relation in zip(states, relations.tolist(), strict=True):
        matrix = sum(space.mixtures[relation, j] * space.bases[j] for j in range(3))
        bias = sum(space.mixtures[relation, j] * space.biases[j] for j in range(3))
        found = row @ matrix + bias
        found = (found - found.mean()) / (found.var(unbiased=False) + 1e-5).sqrt()
        projected = space.project(row[None], torch.tensor([relation]))[0]
        torch.testing.assert_close(projected, found.clamp(0, 1))
    degrees = space.entities.clamp(0, 1)
    expected = (
        torch.cosine_similarity(states[:, None], degrees[None], dim=2) / space.settings.temperature
    )
    torch.testing.assert_close(space.match(states), expected)
    torch.testing.assert_close(space.match_of(states, OWN), expected.gather(1, OWN))


def through(space: Space, name: str, x: Tensor, last: int) -> Tensor:
    """The linear maps of a network one by one, with relu between them."""
    w = space.state_dict()
    for i in range(0, last + 2, 2):
        x = (x if i == 0 else x.clamp(min=0)) @ w[f"{name}.{i}.weight"].T + w[f"{name}.{i}.bias"]
    return x


def weighed(raw: Tensor) -> Tensor:
    return raw.exp() / raw.exp().sum(0)


def test_the_published_operators_of_beta_distributions_by_hand() -> None:
    space = make_space("betae", recipe="paper", layers=2)
    relations = torch.tensor([3, 0, 2])
    w = space.state_dict()
    states = states_of(space, 3) * 2
    for row, relation, found in zip(
        states, relations, space.project(states, relations), strict=True
    ):
        raw = through(space, "hop", torch.cat((row, w["relations"][relation])), 4)
        torch.testing.assert_close(found, (1 + raw).clamp(0.05, 1e9))
    inner = (states @ w["attention.inner.weight"].T + w["attention.inner.bias"]).clamp(min=0)
    # [3, d]: one for α and β
    shares = weighed(inner @ w["attention.outer.weight"].T + w["attention.outer.bias"])
    alpha, beta = states.chunk(2, 1)
    expected = torch.cat(((shares * alpha).sum(0), (shares * beta).sum(0)))
    torch.testing.assert_close(space.intersect(states[None])[0], expected)


def test_the_published_operators_of_cones_by_hand() -> None:
    space = make_space("cone", recipe="paper", layers=2)
    relations = torch.tensor([3, 0, 2])
    w = space.state_dict()
    states = states_of(space, 3)
    for row, relation, found in zip(
        states, relations, space.project(states, relations), strict=True
    ):
        raw = through(
            space, "hop", row + math.pi * torch.tanh(w["relations"][relation] / (22 / 5)), 4
        )
        axes = raw[:5]
        apertures = raw[5:]
        expected = torch.cat(
            (math.pi * axes.tanh(), math.pi / 2 * (2 * apertures).tanh() + math.pi / 2)
        )
        torch.testing.assert_close(found, expected)
    axes, apertures = states.chunk(2, 1)
    edges = torch.cat((axes - apertures, axes + apertures), 1)
    shares = weighed(through(space, "weigh", edges, 2))
    x = (shares * axes.cos()).sum(0)
    y = (shares * axes.sin()).sum(0)
    inner = (edges @ w["inner.weight"].T + w["inner.bias"]).clamp(min=0).mean(0)
    shrink = 1 / (1 + torch.exp(-(w["outer.weight"] @ inner + w["outer.bias"])))
    expected = torch.cat(
        (torch.atan(y / x) + (x < 0) * math.pi * y.sign(), apertures.min(0).values * shrink)
    )
    torch.testing.assert_close(space.intersect(states[None])[0], expected)
    turned = torch.cat((axes - math.pi * torch.where(axes >= 0, 1, -1), math.pi - apertures), 1)
    torch.testing.assert_close(space.complement(states), turned)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("recipe", ["lean", "paper"])
def test_an_intersection_does_not_depend_on_the_order(model: str, recipe: str) -> None:
    space = make_space(model, recipe=recipe)
    states = states_of(space, 4, 3)
    torch.testing.assert_close(space.intersect(states), space.intersect(states[:, [2, 0, 1]]))


@pytest.mark.parametrize("model", MODELS)
def test_the_complement_of_a_complement_is_the_state(model: str) -> None:
    space = make_space(model)
    states = states_of(space, 7)
    torch.testing.assert_close(space.complement(space.complement(states)), states)
    outside = space.match(space.complement(states)) - space.match(states)
    assert (outside.abs() > 1e-6).any(1).all()


@pytest.mark.parametrize("model", MODELS)
def test_projections_take_states_and_relations_row_by_row(model: str) -> None:
    space = make_space(model)
    states = states_of(space, 6)
    relations = torch.tensor([0, 1, 2, 3, 1, 1])
    rows = [space.project(states[i : i + 1], relations[i : i + 1])[0] for i in range(6)]
    torch.testing.assert_close(space.project(states, relations), torch.stack(rows))


def test_a_union_of_many_follows_product_logic() -> None:
    space = make_space("fuzzqe")
    states = states_of(space, 4, 3)
    x, y, z = states.unbind(1)
    torch.testing.assert_close(space.union(states), x + y + z - x * y - x * z - y * z + x * y * z)
    assert (space.union(states) >= states.amax(1) - 1e-12).all()
    assert (space.union(states) <= 1).all()


def test_everything_is_near_to_all() -> None:
    beta, cone, fuzzy = (make_space(model) for model in MODELS)
    assert torch.equal(beta.complement(beta.everything()), beta.everything())
    # all that is left is inside
    centre = (math.pi * torch.tanh(cone.entities / 0.2) / 2).sin().abs()
    torch.testing.assert_close(
        cone.match(cone.everything()[None].double())[0],
        cone.settings.margin - cone.scale * 0.02 * centre.sum(1),
    )
    states = states_of(fuzzy, 4)
    torch.testing.assert_close(
        fuzzy.intersect(torch.stack((states, fuzzy.everything().expand(4, -1)), 1)), states
    )


@pytest.mark.parametrize("model", ["betae", "fuzzqe"])
def test_what_scoring_keeps_is_what_it_would_work_out(model: str) -> None:
    space = make_space(model)
    states = states_of(space, 4)
    before = space.match(states)
    space.renew()
    torch.testing.assert_close(space.match(states), before)
    with torch.no_grad():
        space.entities.mul_(0.5)
    torch.testing.assert_close(
        space.train().match(states), space.match(states, torch.arange(ENTITIES))
    )
    space.eval().renew()
    torch.testing.assert_close(space.match(states), space.match(states, torch.arange(ENTITIES)))


def test_opposite_axes_leave_a_finite_slope() -> None:
    space = make_space("cone")
    states = torch.zeros(1, 2, space.width, dtype=torch.float64)
    states[0, 0, : space.width // 2] = math.pi
    space.intersect(states.requires_grad_()).sum().backward()
    assert torch.isfinite(states.grad).all()


def test_apertures_are_dropped_in_training_alone() -> None:
    space = make_space("cone", dropout=0.5)
    states = states_of(space, 40, 2)
    closed = [
        (space.train(mode).intersect(states).chunk(2, 1)[1] == 0).any() for mode in (True, False)
    ]
    assert closed == [True, False]


def test_an_exact_product_has_its_gradients_and_leaves_the_precision_of_others() -> None:
    before = torch.get_float32_matmul_precision()
    generator = torch.Generator().manual_seed(0)
    left, right = (
        torch.randn(n, 3, generator=generator, dtype=torch.float64).requires_grad_() for n in (4, 5)
    )
    assert torch.autograd.gradcheck(exact_products, (left, right))
    assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("model", ["gqe", "q2b"])
def test_an_encoder_is_a_link_predictor(model: str) -> None:
    """Each atom by hand from the weights, and an engine that searches over it."""
    graph = grid()
    encoder = make_encoder(EncodeSettings(model, width=5).with_derived(30), graph)
    encoder.reset(torch.Generator().manual_seed(1))
    scorer = encoder.scorer()
    weights = encoder.state_dict()
    heads = torch.tensor([0, 3])
    relations = torch.tensor([1, 2])
    tails = torch.tensor([7, 3])
    row = scorer.logits(heads, relations)
    for i, (h, r, t) in enumerate(
        zip(heads.tolist(), relations.tolist(), tails.tolist(), strict=True)
    ):
        moved = weights["relations"][r]
        gap = (weights["entities"][t] - weights["entities"][h] - moved[:5]).abs()
        if model == "q2b":
            offset = moved[5:]
            gap = (gap - offset).clamp(min=0) + 0.02 * torch.minimum(gap, offset).abs()
        assert float(row[i, t]) == pytest.approx(encoder.margin - float(gap.sum()), rel=1e-5)
    assert torch.allclose(scorer.logits_of(heads, relations, tails), row[[0, 1], tails])
    engine = Engine(graph, scorer, calibration="sigmoid", observed="none")
    assert len(engine.ask("?x : exists ?y . next(e0, ?y) & leap(?y, ?x)", top=3)) == 3


@pytest.mark.parametrize("model", ["gqe", "q2b"])
def test_intersections_by_hand(model: str) -> None:
    encoder = make_encoder(EncodeSettings(model, width=3).with_derived(30), grid())
    encoder.reset(torch.Generator().manual_seed(1))
    states = torch.randn(2, 3, encoder.width, generator=torch.Generator().manual_seed(2))
    w = encoder.state_dict()
    for row, found in zip(states, encoder.intersect(states), strict=True):
        points = row[:, :3]
        hidden = [
            (w["attention.inner.weight"] @ x + w["attention.inner.bias"]).clamp(min=0)
            for x in points
        ]
        raw = [w["attention.outer.weight"] @ h + w["attention.outer.bias"] for h in hidden]
        total = sum(torch.exp(one) for one in raw)
        centre = sum(torch.exp(one) / total * x for one, x in zip(raw, points, strict=True))
        assert torch.allclose(found[:3], centre, atol=1e-6)
        if model == "q2b":
            inner = (
                sum((w["inner.weight"] @ o + w["inner.bias"]).clamp(min=0) for o in row[:, 3:]) / 3
            )
            shrink = 1 / (1 + torch.exp(-(w["outer.weight"] @ inner + w["outer.bias"])))
            assert torch.allclose(found[3:], row[:, 3:].min(0).values * shrink, atol=1e-6)
