"""Training: what it learns, and how it fails."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from ring_runs import GRAPH, SIZE, SMALL, new_run
from tacit.distributed.threads import threads_for
from tacit.errors import LimitError, SettingsError, TrainingError
from tacit.fitting.loop import Trainer
from tacit.fitting.progress import Event
from tacit.graph.datasets import load
from tacit.graph.graph import Graph
from tacit.links.models import MODELS, make_model, pick_device
from tacit.links.precision import float32_products
from tacit.links.settings import TrainSettings
from tacit.links.training.fact_validation import Validation
from tacit.links.training.link_training import Training, train
from tacit.links.training.memory import _from_cgroup, table_advice, table_bytes
from tacit.links.training.step import TrainStep
from tacit.run_folder.files import MODEL


@pytest.mark.parametrize("name", MODELS)
def test_every_model_learns_the_ring(name: str) -> None:
    settings = replace(SMALL, model=name, rank=24, epochs=40, reg=0.0, validate_every=40, init=0.1)
    before = Training(GRAPH, settings)
    start = Validation(GRAPH, 100, 0, 8).mrr(before.module)
    after = Validation(
        Graph(GRAPH.entities, GRAPH.relations, GRAPH.train, GRAPH.train[:12]), 100, 0, 8
    )
    assert after.mrr(train(GRAPH, settings)) > max(0.7, start)


def test_rounded_products_learn_the_ring_as_well() -> None:
    settings = replace(
        SMALL, rank=24, epochs=40, reg=0.0, validate_every=40, init=0.1, precision="bf16"
    )
    seen = Validation(
        Graph(GRAPH.entities, GRAPH.relations, GRAPH.train, GRAPH.train[:12]), 100, 0, 8
    )
    assert seen.mrr(train(GRAPH, settings)) > 0.9


def test_a_few_epochs_teach_the_world(tmp_path: Path) -> None:
    world = load("world")
    settings = TrainSettings(epochs=6, validate_every=3, device="cpu")
    run = new_run(tmp_path / "run", settings, world)
    train(world, settings, run)
    assert run.results()["train"]["valid_mrr"] >= 0.70


class PlainRowwise:
    """Adagrad with one sum for an entity's row and one for each number of a relation."""

    def __init__(self, parameters: Iterator[torch.nn.Parameter], lr: float) -> None:
        entities, relations, *others = parameters
        self.tables = [entities, *others]
        self.lr = lr
        self.relations = torch.optim.Adagrad([relations], lr=lr)
        self.sums = [[0.0] * len(table) for table in self.tables]

    def zero_grad(self) -> None:
        self.relations.zero_grad()
        for table in self.tables:
            table.grad = None

    def step(self) -> None:
        self.relations.step()
        for table, sums in zip(self.tables, self.sums, strict=True):
            assert table.grad is not None
            for row, gradient in enumerate(table.grad):
                sums[row] += sum(number**2 for number in gradient.tolist()) / len(gradient)
                if sums[row]:
                    table.data[row] -= self.lr * gradient / math.sqrt(sums[row])


OPTIMIZERS = {"adagrad": torch.optim.Adagrad, "rowwise": PlainRowwise, "adam": torch.optim.Adam}


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"relation_weight": 2.0},
        {"regulariser": "l2"},
        {"optimizer": "adam"},
        {"optimizer": "rowwise"},
    ],
)
@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_the_plain_step(name: str, extra: dict[str, object]) -> None:
    if "relation_weight" in extra and name in ("transe", "rotate"):
        extra = {}
    settings = SMALL.changed(model=name, reg=0.1, lr=0.05, init=1.0, **extra)
    training = Training(GRAPH, settings)
    plain = make_model(name, GRAPH.num_entities, GRAPH.num_relations, settings.rank)
    plain.load_state_dict(training.module.state_dict())
    optimizer = OPTIMIZERS[settings.optimizer](plain.parameters(), lr=0.05)
    for batch in training.facts.triples(torch.arange(17)).long().split(10):
        heads, relations, tails = batch.T
        loss = F.cross_entropy(plain.logits(heads, relations), tails)
        rows = plain.rows(heads, relations, tails)
        power = 1.5 if settings.regulariser == "n3" else 1.0
        total = loss + 0.1 * sum(s.pow(power).sum() for s in plain.squares(*rows)) / len(batch)
        if settings.relation_weight:
            every = torch.arange(GRAPH.num_relations)
            scores = torch.stack(
                [plain.logits_of(heads, every[r].expand(len(batch)), tails) for r in every], -1
            )
            total = total + 2.0 * F.cross_entropy(scores, relations)
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        found = training.update(batch, torch.Generator())
        torch.testing.assert_close(found, loss.detach())
    for name_, expected in plain.state_dict().items():
        torch.testing.assert_close(training.module.state_dict()[name_], expected)


@pytest.mark.parametrize("optimizer_name", ["adagrad", "rowwise"])
@pytest.mark.parametrize("name", MODELS)
def test_a_sampled_step_is_sparse_adagrad(name: str, optimizer_name: str) -> None:
    settings = replace(SMALL, model=name, negatives=5, init=1.0, reg=0.1, optimizer=optimizer_name)
    training = Training(GRAPH, settings)
    plain = make_model(name, GRAPH.num_entities, GRAPH.num_relations, settings.rank)
    plain.load_state_dict(training.module.state_dict())
    # rows without a gradient stay
    optimizer = OPTIMIZERS[optimizer_name](plain.parameters(), lr=settings.lr)
    for seed in (1, 2):
        batch = training.facts.triples(torch.arange(4 * seed)).long()
        heads, relations, tails = batch.T
        drawn = torch.randint(SIZE, (5,), generator=torch.Generator().manual_seed(seed))
        scores = plain.logits(heads, relations)
        rows = torch.arange(len(batch))
        wrong = (
            scores[:, drawn].exp().masked_fill(drawn == tails[:, None], 0.0).sum(-1)
            * (SIZE - 1)
            / 5
        )
        right = scores[rows, tails]
        loss = ((right.exp() + wrong).log() - right).mean()
        penalty = sum(
            s.pow(1.5).sum() for s in plain.squares(*plain.rows(heads, relations, tails))
        ) / len(batch)
        optimizer.zero_grad()
        (loss + 0.1 * penalty).backward()
        optimizer.step()
        found = training.update(batch, torch.Generator().manual_seed(seed))
        torch.testing.assert_close(found, loss.detach())
    for key, expected in plain.state_dict().items():
        torch.testing.assert_close(training.module.state_dict()[key], expected)


def test_seeds_decide(tmp_path: Path) -> None:
    one, same, other = (train(GRAPH, replace(SMALL, seed=seed)).state_dict() for seed in (1, 1, 2))
    assert torch.equal(one["entities.weight"], same["entities.weight"])
    assert not torch.equal(one["entities.weight"], other["entities.weight"])


def test_the_best_weights_are_kept_and_patience_ends_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = iter([0.2, 0.5, 0.4, 0.3, 0.9])
    weights = []

    def mrr(self: Validation, model: torch.nn.Module) -> float:
        weights.append(model.state_dict()["entities.weight"].clone())
        return next(figures)

    monkeypatch.setattr(Validation, "mrr", mrr)
    run = new_run(tmp_path / "run")
    model = train(GRAPH, replace(SMALL, epochs=20, validate_every=1, patience=2), run)
    assert torch.equal(model.entities.weight, weights[1])
    results = run.results()["train"]
    assert (results["valid_mrr"], results["best_epoch"], results["epochs"]) == (0.5, 2, 4)


def test_progress_is_told_to_a_callback() -> None:
    events: list[Event] = []
    train(GRAPH, SMALL, progress=events.append)
    rounds = [event for event in events if event.what in ("round", "validation")]
    assert [event.where for event in rounds] == [f"epoch {number} of 6" for number in range(1, 7)]
    assert [event.metric is not None for event in rounds] == [False, True] * 3  # every second epoch
    assert rounds[-1].done == rounds[-1].total == 6 * 9  # 84 facts in batches of 10
    assert rounds[0].loss > rounds[-1].loss


def test_a_graph_without_validation_facts(tmp_path: Path) -> None:
    graph = Graph(GRAPH.entities, GRAPH.relations, GRAPH.train)
    run = new_run(tmp_path / "run", graph=graph)
    train(graph, SMALL, run)
    assert run.results()["train"]["valid_mrr"] is None
    with pytest.raises(TrainingError, match="no train facts"):
        train(Graph(GRAPH.entities, GRAPH.relations, GRAPH.train[:0]), SMALL)


def test_validation_counts_by_hand() -> None:
    graph = Graph.of([("a", "r", "b"), ("c", "r", "d")], [("a", "r", "c"), ("a", "r", "d")])
    table = torch.zeros(2, 4, 4)  # scores by relation id, head, tail
    # b is known; c ranks 1st, d 2nd behind nothing but a filtered c
    table[0, 0] = torch.tensor([0.1, 9.0, 0.5, 0.3])
    table[1, 2] = torch.tensor([0.2, 0.4, 0.3, 0.1])  # who points at c: a is third
    # who points at d: c is known, a ties with b: 1.5
    table[1, 3] = torch.tensor([0.2, 0.2, 9.0, 0.1])

    class Fixed:
        num_entities = 4
        num_relations = 2
        device = torch.device("cpu")

        def logits(
            self, heads: torch.Tensor, relations: torch.Tensor, out: None = None
        ) -> torch.Tensor:
            return table[relations, heads].clone()

    ids = [graph.entities.id(label) for label in "abcd"]
    assert ids == [0, 1, 2, 3]
    for rows in (1, 2, 100):
        found = Validation(graph, 100, 0, rows).mrr(Fixed())  # type: ignore[arg-type]
        assert found == pytest.approx((1 + 1 + 1 / 3 + 1 / 1.5) / 4)


def test_a_batch_is_of_facts_and_their_inverses() -> None:
    expected = torch.from_numpy(GRAPH.triples("train"))
    assert torch.equal(Training(GRAPH, SMALL).facts.triples(torch.arange(len(expected))), expected)


def test_validation_takes_a_sample_of_many_facts() -> None:
    graph = Graph(GRAPH.entities, GRAPH.relations, GRAPH.train[:1], GRAPH.train)
    assert len(Validation(graph, 5, 0, 8).tails) == 10
    assert len(Validation(graph, 1000, 0, 8).tails) == 2 * len(GRAPH.train)


def test_a_loss_that_is_no_number(tmp_path: Path) -> None:
    wild = replace(SMALL, init=1e30, reg=0.0)
    run = new_run(tmp_path / "run", wild)
    with pytest.raises(TrainingError, match=r"not a number in epoch \d+.*lower `lr`"):
        train(GRAPH, wild, run)
    assert not run.has(MODEL)
    broken = Training(GRAPH, SMALL)
    broken.module.entities.storage.data[0, 0] = float("inf")
    with pytest.raises(TrainingError, match="a weight is not a number"):
        Trainer(broken, lambda event: None).finish()


def test_memory_of_tables_by_hand() -> None:
    # 24 entities are stored as 128 rows of 2 x 4 numbers, beside 4 relations: 1,056 numbers of 4
    # bytes weights, gradient, squares, best
    assert table_bytes(SMALL, SIZE, 4, holds_best=True) == 4 * 1056 * 4
    assert table_bytes(replace(SMALL, negatives=5), SIZE, 4, holds_best=False) == 4 * 1056 * 2
    rowwise = replace(SMALL, negatives=5, optimizer="rowwise")
    # a sum for each row of entities
    assert table_bytes(rowwise, SIZE, 4, holds_best=False) == 4 * (1056 + 128 + 32)
    cp = replace(SMALL, model="cp", optimizer="adam")
    assert table_bytes(cp, SIZE, 4, holds_best=False) == 4 * (2 * 128 * 4 + 4 * 4) * 4


def test_what_does_not_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LimitError, match=r"needs at least .* GB on cpu .* lower `rank`"):
        train(GRAPH, replace(SMALL, rank=10**10))
    with pytest.raises(LimitError, match="`memory=1e-09` GB"):
        train(GRAPH, replace(SMALL, memory=1e-9))

    def exhausted(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    monkeypatch.setattr(TrainStep, "__call__", exhausted)
    with pytest.raises(
        LimitError, match="at rank 4 and batch 10; lower `rank` or `batch`, or use `negatives`"
    ):
        train(GRAPH, SMALL)
    with pytest.raises(
        LimitError, match="at rank 4 and batch 10; lower `rank`, `batch` or `negatives`"
    ):
        train(GRAPH, replace(SMALL, negatives=5))


@pytest.mark.parametrize(
    ("settings", "advice"),
    [
        (SMALL, "lower `rank` or use `negatives` or use `optimizer='rowwise'`"),
        (replace(SMALL, negatives=5), "lower `rank` or use `optimizer='rowwise'`"),
        (replace(SMALL, negatives=5, optimizer="rowwise"), "lower `rank`"),
        (replace(SMALL, optimizer="adam"), "lower `rank` or use `optimizer='rowwise'`"),
    ],
)
def test_what_is_advised_where_tables_do_not_fit_makes_them_smaller(
    settings: TrainSettings, advice: str
) -> None:
    assert table_advice(settings) == advice
    changes = {
        "lower `rank`": {"rank": 3},
        "use `negatives`": {"negatives": 5},
        "use `optimizer='rowwise'`": {"optimizer": "rowwise"},
    }
    needed = table_bytes(settings, SIZE, 4, holds_best=True)
    for words in advice.split(" or "):
        changed = settings.changed(**changes[words])
        assert table_bytes(changed, SIZE, 4, holds_best=True) < needed


def test_what_is_advised_where_training_takes_long_is_not_there_already() -> None:
    all_of_them, some = (
        Training(GRAPH, replace(SMALL, negatives=number)).faster for number in (0, 5)
    )
    assert "or negatives instead of all entities" in all_of_them
    assert "`" not in all_of_them + some  # notes are shown on the command line, too
    assert "instead" not in some
    assert "fewer negatives" in some
    assert (
        "the optimizer adagrad with negatives"
        in Training(GRAPH, replace(SMALL, optimizer="adam")).faster
    )


def test_what_a_validation_measures_is_told_and_kept(tmp_path: Path) -> None:
    events: list[Event] = []
    of_facts = "filtered, the mean over validation facts, asked in both directions"
    run = new_run(tmp_path / "run", SMALL)
    train(GRAPH, replace(SMALL, epochs=1), run, events.append)
    lines = [str(event) for event in events if event.what == "validation"]
    assert lines
    assert all(f"({of_facts})" in line and "validation MRR " in line for line in lines)
    assert run.results()["train"]["measured"] == of_facts
    train(
        GRAPH,
        replace(SMALL, epochs=1),
        None,
        events.append,
        validate=lambda model: {"2p": 0.5, "2i": 0.25},
    )
    of_questions = "the mean over the shapes of questions that need a validation fact"
    assert f"validation MRR 37.50% (filtered, {of_questions})" in str(events[-1])


def test_a_small_budget_trains_the_same_model() -> None:
    wide = Graph.of([(f"e{i}", "r", f"e{(i * 7) % 300}") for i in range(300)])
    settings = replace(SMALL, epochs=2, batch=50)
    blocks = Training(wide, replace(settings, memory=4 * 50 * 128 / 1e9))
    assert blocks.update.full is not None
    assert blocks.update.full.block == 128
    expected = train(wide, settings)
    found = train(wide, blocks.settings)
    torch.testing.assert_close(
        found.entities.weight, expected.entities.weight, rtol=1e-3, atol=1e-4
    )


def test_files_that_were_read_do_not_count_as_taken(tmp_path: Path) -> None:
    for name, text in (
        ("max", "1000\n"),
        ("current", "900\n"),
        ("stat", "anon 200\ninactive_file 650\nfile 700\n"),
    ):
        (tmp_path / f"memory.{name}").write_text(text)
    assert _from_cgroup(tmp_path) == 750
    (tmp_path / "memory.max").write_text("max\n")
    assert _from_cgroup(tmp_path) == math.inf == _from_cgroup(tmp_path / "elsewhere")


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pick_device("cpu").type == "cpu"
    for name in ("abacus", "meta"):  # torch knows one of them
        with pytest.raises(SettingsError, match="it must be auto, cpu, cuda"):
            pick_device(name)
    if not torch.cuda.is_available():
        assert pick_device("auto").type == "cpu"
        with pytest.raises(SettingsError, match="no GPU"):
            pick_device("cuda")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1").index == 1
    with pytest.raises(SettingsError, match="device is 'cuda:2' but the last GPU here is cuda:1"):
        pick_device("cuda:2")


def test_global_switches_are_put_back() -> None:
    before = torch.get_float32_matmul_precision(), torch.get_num_threads()
    with float32_products("tf32"), threads_for(1.0):
        assert (torch.get_float32_matmul_precision(), torch.get_num_threads()) == ("high", 1)
    assert (torch.get_float32_matmul_precision(), torch.get_num_threads()) == before


def test_padding_stays_zero_while_training() -> None:
    model = train(GRAPH, replace(SMALL, optimizer="adam"))
    assert not model.entities.storage[SIZE:].any()
    assert np.isfinite(model.entities.weight.numpy()).all()
