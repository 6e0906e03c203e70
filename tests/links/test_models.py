"""The contract every model keeps, and one example of each worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from tacit.errors import SettingsError
from tacit.graph.graph import Graph
from tacit.links.factors import FactorModel
from tacit.links.models import (
    CP,
    MODELS,
    ComplEx,
    RotatE,
    TransE,
    load_model,
    make_model,
    save_model,
)
from tacit.links.scorer import BilinearScorer, Scorer, VectorScorer
from tacit.run_folder.folder import RunFolder

ENTITIES = 7
RELATIONS = 4
RANK = 3
GRAPH = Graph.of(
    [(f"e{i}", "r" if i % 2 else "s", f"e{(i + 1) % ENTITIES}") for i in range(ENTITIES)]
)


class ModelCase:
    """The contract of every model; a subclass names its model and a score by hand."""

    name: str
    norm = 1
    # weights of a rank-1 model, score of (0, 0, 1)
    by_hand: tuple[dict[str, list[list[float]]], float]

    def model(self, scale: float = 1.0, dtype: torch.dtype = torch.float32) -> FactorModel:
        model = make_model(self.name, ENTITIES, RELATIONS, RANK, self.norm)
        model.reset(scale, torch.Generator().manual_seed(3))
        return model.to(dtype)

    @staticmethod
    def all_triples() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        heads, relations, tails = torch.cartesian_prod(
            torch.arange(ENTITIES), torch.arange(RELATIONS), torch.arange(ENTITIES)
        ).unbind(1)
        return heads, relations, tails

    def test_keeps_the_contract(self) -> None:
        model = self.model()
        assert isinstance(model, Scorer)
        assert isinstance(model, VectorScorer)
        assert isinstance(model, BilinearScorer) == (self.name in ("complex", "distmult", "cp"))
        assert (model.num_entities, model.num_relations) == (ENTITIES, RELATIONS)
        assert model.device == torch.device("cpu")

    def test_rows_equal_pairs(self) -> None:
        model = self.model()
        heads, relations, tails = self.all_triples()
        rows = model.logits(heads, relations)
        assert rows.shape == (len(heads), ENTITIES)
        torch.testing.assert_close(
            rows[torch.arange(len(heads)), tails], model.logits_of(heads, relations, tails)
        )

    def test_rows_go_into_a_buffer(self) -> None:
        model = self.model()
        heads = torch.tensor([0, 5])
        relations = torch.tensor([3, 1])
        out = torch.full((2, ENTITIES), math.nan)
        with torch.no_grad():
            assert model.logits(heads, relations, out=out) is out
        torch.testing.assert_close(out, model.logits(heads, relations).detach())

    def test_vectors_stand_for_entities(self) -> None:
        model = self.model()
        heads, relations, tails = self.all_triples()
        h = model.entity_vectors(heads)
        t = model.entity_vectors(tails)
        torch.testing.assert_close(
            model.score_vectors(h, relations, t), model.logits_of(heads, relations, tails)
        )
        torch.testing.assert_close(model.score_all(h, relations), model.logits(heads, relations))

    def test_a_row_is_one_product_where_it_says_so(self) -> None:
        model = self.model()
        if isinstance(model, BilinearScorer):
            heads, relations, _ = self.all_triples()
            keys = model.keys()
            assert keys.shape[0] == ENTITIES
            torch.testing.assert_close(
                model.queries(heads, relations) @ keys.T, model.logits(heads, relations)
            )

    def test_moves_with_its_device_and_type(self) -> None:
        heads, relations, tails = self.all_triples()
        moved_model = self.model().to("meta")
        assert moved_model.device.type == "meta"
        scores = moved_model.logits_of(heads.to("meta"), relations.to("meta"), tails.to("meta"))
        assert scores.device.type == "meta"
        wide = self.model(dtype=torch.float64).logits_of(heads, relations, tails)
        torch.testing.assert_close(wide.float(), self.model().logits_of(heads, relations, tails))

    def test_survives_saving(self, tmp_path: object) -> None:
        run = RunFolder.create(f"{tmp_path}/run", GRAPH, {})
        model = self.model().requires_grad_(False)
        save_model(run, model)
        opened = load_model(RunFolder.open(run.path))
        heads, relations, _ = self.all_triples()
        assert torch.equal(opened.logits(heads, relations), model.logits(heads, relations))
        assert not any(parameter.requires_grad for parameter in opened.parameters())

    def test_gradients_match_finite_differences(self) -> None:
        model = self.model(dtype=torch.float64)
        heads = torch.tensor([0, 2, 6])
        relations = torch.tensor([1, 0, 3])
        weights = torch.randn(
            3, ENTITIES, generator=torch.Generator().manual_seed(5), dtype=torch.float64
        )

        def value() -> torch.Tensor:
            return (model.logits(heads, relations) * weights).sum()

        value().backward()
        for parameter in model.parameters():
            assert parameter.grad is not None
            flat = parameter.data.view(-1)
            slope = parameter.grad.view(-1)
            for i in range(0, flat.numel(), 5):
                original = float(flat[i])
                flat[i] = original + 1e-6
                above = float(value().detach())
                flat[i] = original - 1e-6
                below = float(value().detach())
                flat[i] = original
                assert float(slope[i]) == pytest.approx((above - below) / 2e-6, abs=1e-6)

    def test_pull_is_the_gradient_of_match(self) -> None:
        model = self.model()
        generator = torch.Generator().manual_seed(1)
        width = model.tail_table.width
        queries = torch.randn(4, width, generator=generator)
        tails = torch.randn(6, width, generator=generator)
        weights = torch.randn(4, 6, generator=generator)
        q = queries.clone().requires_grad_()
        t = tails.clone().requires_grad_()
        (model.match(q, t) * weights).sum().backward()
        assert q.grad is not None
        assert t.grad is not None
        out = torch.empty_like(tails)
        torch.testing.assert_close(model.pull(queries, tails, weights, out), q.grad)
        torch.testing.assert_close(out, t.grad)

    def test_example_by_hand(self) -> None:
        weights, score = self.by_hand
        model = make_model(self.name, 2, 1, 1, self.norm)
        model.load_state_dict({name: torch.tensor(rows) for name, rows in weights.items()})
        model.requires_grad_(False)
        one = torch.tensor([1])
        zero = torch.tensor([0])
        assert float(model.logits_of(zero, zero, one)) == pytest.approx(score)
        assert float(model.logits(zero, zero)[0, 1]) == pytest.approx(score)


class TestComplEx(ModelCase):
    name = "complex"
    # (1 + 2i)(3 - i) = 5 + 5i; times conj(2 + 4i) has the real part 5·2 + 5·4
    by_hand = {"entities.weight": [[1.0, 2.0], [2.0, 4.0]], "relations.weight": [[3.0, -1.0]]}, 30.0

    def test_relation_queries_score_all_relations(self) -> None:
        model = self.model()
        assert isinstance(model, ComplEx)
        heads, relations, tails = self.all_triples()
        h, _, t = model.rows(heads, relations, tails)
        scores = model.relation_queries(h, t) @ model.relations.weight.T
        torch.testing.assert_close(
            scores[torch.arange(len(heads)), relations], model.logits_of(heads, relations, tails)
        )


class TestDistMult(ModelCase):
    name = "distmult"
    by_hand = {"entities.weight": [[2.0], [5.0]], "relations.weight": [[-3.0]]}, -30.0


class TestCP(ModelCase):
    name = "cp"
    by_hand = (
        {
            "entities.weight": [[2.0], [7.0]],
            "relations.weight": [[3.0]],
            "tails.weight": [[11.0], [0.5]],
        },
        3.0,
    )

    def test_an_entity_has_two_rows(self) -> None:
        model = self.model()
        assert isinstance(model, CP)
        both = model.entity_vectors(torch.tensor([2]))
        assert torch.equal(
            both, torch.cat((model.entities.weight[2:3], model.tails.weight[2:3]), -1)
        )


class TestTransE(ModelCase):
    name = "transe"
    by_hand = {"entities.weight": [[2.0], [7.0]], "relations.weight": [[1.5]]}, -3.5


class TestTransEL2(TestTransE):
    norm = 2

    def test_length_of_a_vector(self) -> None:
        model = TransE(2, 1, 2, norm=2)
        model.load_state_dict(
            {
                "entities.weight": torch.tensor([[1.0, 1.0], [4.0, 5.0]]),
                "relations.weight": torch.zeros(1, 2),
            }
        )
        model.requires_grad_(False)
        assert float(model.logits(torch.tensor([0]), torch.tensor([0]))[0, 1]) == pytest.approx(
            -5.0
        )


class TestRotatE(ModelCase):
    name = "rotate"
    # (1 + 2i) turned by a quarter is -2 + i; 1 + 5i is (3, 4) away
    by_hand = (
        {"entities.weight": [[1.0, 2.0], [1.0, 5.0]], "relations.weight": [[math.pi / 2]]},
        -5.0,
    )

    def test_streaming_does_not_change_scores_or_gradients(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        whole = self.model()
        blocks = self.model()
        heads = torch.tensor([0, 3])
        relations = torch.tensor([1, 2])
        expected = whole.logits(heads, relations)
        expected.square().sum().backward()
        monkeypatch.setattr("tacit.links.models.BLOCK_BYTES", 16 * 2 * 6 * 2)  # two tails a block
        found = blocks.logits(heads, relations)
        found.square().sum().backward()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(blocks.entities.storage.grad, whole.entities.storage.grad)


class TestRotatEL2(TestRotatE):
    norm = 2


def test_every_model_has_a_case() -> None:
    def cases(case: type[ModelCase]) -> set[str]:
        return {getattr(case, "name", "")}.union(*(cases(sub) for sub in case.__subclasses__()))

    assert cases(ModelCase) - {""} == set(MODELS)


def test_a_norm_that_is_none() -> None:
    with pytest.raises(SettingsError, match="norm is 3"):
        RotatE(2, 1, 1, norm=3)


def test_padding_never_shows() -> None:
    model = ComplEx(ENTITIES, RELATIONS, RANK)
    model.reset(1.0)
    assert model.entities.storage.shape == (128, 2 * RANK)
    assert not model.entities.storage[ENTITIES:].any()
    assert model.state_dict()["entities.weight"].shape == (ENTITIES, 2 * RANK)
    with pytest.raises(RuntimeError, match=r"entities\.weight is"):
        model.load_state_dict(
            {"entities.weight": torch.zeros(128, 6), "relations.weight": torch.zeros(RELATIONS, 6)}
        )
