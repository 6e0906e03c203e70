"""Questions through lists: exact answers, known ones first, and earned certificates."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

import tacit
from tacit.engine.engine import Engine
from tacit.errors import RunError, SettingsError
from tacit.graph.graph import Graph, directed
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.links import index as index_top
from tacit.links.models import ComplEx, TransE, load_model, save_model
from tacit.links.retrievers import ScanRetriever, TopK
from tacit.links.run_retrievers import RunRetrievers
from tacit.links.settings import TrainSettings
from tacit.query.sampling.shapes import SHAPES
from tacit.run_folder.files import CODES, INDEX, MODEL
from tacit.run_folder.folder import RunFolder

N = 400
R = 6
QUESTIONS = {
    "1p": "?t : r0(e1, ?t)",
    "2p": "?t : exists ?v . r0(e1, ?v) & r1(?v, ?t)",
    "3p": "?t : exists ?v, ?w . r0(e2, ?v) & r1(?v, ?w) & r2(?w, ?t)",
    "2i": "?t : r0(e1, ?t) & r1(e2, ?t)",
    "ip": "?t : exists ?v . r0(e1, ?v) & r1(e2, ?v) & r2(?v, ?t)",
    "pi": "?t : (exists ?v . r0(e2, ?v) & r1(?v, ?t)) & r2(e17, ?t)",
    "2u": "?t : r0(e1, ?t) | r1(e2, ?t)",
    "pu": "?t : (exists ?v . r0(e2, ?v) & r1(?v, ?t)) | r2(e17, ?t)",
    "2in": "?t : r0(e1, ?t) & !r1(e2, ?t)",
    "pni": "?t : !(exists ?v . r0(e1, ?v) & r1(?v, ?t)) & r2(e2, ?t)",
    "cycle": "?t : exists ?v, ?w . r0(?v, ?w) & r1(?w, ?t) & r2(?t, ?v) & r0(e1, ?v)",
}
OVER_ROWS = ("pni", "cycle")


def graph() -> Graph:
    random = np.random.default_rng(0)
    facts = np.stack(
        [
            random.integers(N, size=900),
            2 * random.integers(R, size=900),
            random.integers(N, size=900),
        ],
        1,
    ).astype(np.int32)
    return Graph(
        Vocabulary(f"e{i}" for i in range(N)),
        directed(f"r{i}" for i in range(R)),
        facts,
        name="random",
    )


def model(seed: int = 1, scale: float = 0.7) -> ComplEx:
    made = ComplEx(N, 2 * R, 6).requires_grad_(False)
    made.reset(scale, torch.Generator().manual_seed(seed))
    return made


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    run = RunFolder.create(tmp_path / "run", graph(), TrainSettings(rank=6, device="cpu").to_dict())
    save_model(run, model())
    return run


def opened(folder: RunFolder, **settings: object) -> tacit.Run:
    return tacit.open(folder.path, device="cpu", **settings)


def same(found: tacit.Answers, expected: tacit.Answers) -> None:
    assert found.entities == expected.entities
    assert [answer.known for answer in found] == [answer.known for answer in expected]
    np.testing.assert_allclose(
        [a.log_score for a in found], [a.log_score for a in expected], rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize(("observed", "new"), [("all", False), ("all", True), ("none", False)])
def test_a_scan_gives_the_answers_of_exact_search_and_proves_them(
    calibration: str, observed: str, new: bool
) -> None:
    exact = Engine(
        graph(), model(), search="exact", calibration=calibration, observed=observed, new=new
    )
    scan = exact.with_settings(search="certified", candidates="scan", k=N)
    for name, question in QUESTIONS.items():
        for top in (1, 10, 60):
            found = scan.ask(question, top)
            same(found, exact.ask(question, top))
            assert found.certified or name in OVER_ROWS, name
            assert not found.estimated


def test_a_list_that_ties_cut_is_certified_only_where_it_is_the_right_one() -> None:
    # so large that all scores are 1
    exact = Engine(graph(), model(scale=2.0), search="exact", calibration="sigmoid")
    scan = exact.with_settings(search="certified", candidates="scan")
    proven = []
    for question in (QUESTIONS[name] for name in QUESTIONS if name not in OVER_ROWS):
        for top in (1, 10, 60):
            found = scan.ask(question, top)
            expected = exact.ask(question, top)
            proven.append(found.certified)
            assert not found.certified or found.entities == expected.entities
            assert found.entities[: found.proven] == expected.entities[: found.proven]
            np.testing.assert_allclose(
                [a.score for a in found], [a.score for a in expected], atol=1e-5
            )
    assert len(set(proven)) == 2


@pytest.mark.parametrize("calibration", ["sigmoid", "softmax-count"])
@pytest.mark.parametrize(
    "search", [{"search": "exact"}, {"search": "certified"}, {"candidates": "scan"}]
)
def test_entities_with_one_embedding_go_by_id(calibration: str, search: dict[str, str]) -> None:
    """Wherever they stand in the table, of which the last columns are no whole tile."""
    groups = torch.randint(0, 20, (N,), generator=torch.Generator().manual_seed(3))
    equal = model()
    equal.keys().copy_(equal.keys()[groups])
    engine = Engine(
        graph(), equal, calibration=calibration, observed="none", loops=True, k=N, **search
    )
    for name in (name for name in QUESTIONS if name != "cycle"):
        found = engine.ask(QUESTIONS[name], 350)
        kinds = [int(groups[answer.id]) for answer in found]
        assert len(kinds) == 350
        borders = sum(one != other for one, other in pairwise(kinds))
        assert borders == len(set(kinds)) - 1, name  # those of one embedding stand together
        for kind in set(kinds):
            ids = [answer.id for answer, its in zip(found, kinds, strict=True) if its == kind]
            assert ids == sorted(ids), name


def test_a_scan_of_codes_changes_nothing(folder: RunFolder) -> None:
    pytest.importorskip("faiss")
    plain = opened(folder, search="exact", calibration="sigmoid")
    plain.index()
    coded = opened(folder, search="certified", candidates="scan", calibration="sigmoid", k=N)
    for name, question in QUESTIONS.items():
        found = coded.ask(question)
        same(found, plain.ask(question))
        assert found.certified or name in OVER_ROWS


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_rows_are_scanned_wherever_the_weights_were_read_to(
    folder: RunFolder,
    mode: Callable[[], AbstractContextManager[None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # as where no file that is open may be replaced
    monkeypatch.setattr("tacit.links.models.MAPS", False)
    with mode():
        run = opened(folder, candidates="scan", calibration="sigmoid")
    exact = opened(folder, search="exact", calibration="sigmoid")
    for _ in range(2):
        same(run.ask(QUESTIONS["2p"]), exact.ask(QUESTIONS["2p"]))


@pytest.mark.parametrize("table", ["entities", "relations"])
def test_weights_that_were_written_to_are_not_answered_by_what_is_on_disk(
    folder: RunFolder, table: str
) -> None:
    pytest.importorskip("faiss")
    opened(folder).index()
    early, late = (opened(folder, candidates="scan", calibration="sigmoid") for _ in range(2))
    early.ask(QUESTIONS["2p"])
    # one whose codes and rows were read before, and one that would read them
    for run in (early, late):
        getattr(run.engine.scorer, table).weight.mul_(-1.3)
        exact = run.engine.with_settings(search="exact", candidates="rows")
        for name in ("1p", "2p"):
            found = run.ask(QUESTIONS[name])
            same(found, exact.ask(QUESTIONS[name]))
            assert found.certified
    same(
        opened(folder, candidates="scan", calibration="sigmoid").ask(QUESTIONS["2p"]),
        opened(folder, search="exact", calibration="sigmoid").ask(QUESTIONS["2p"]),
    )  # nothing of theirs was kept


@pytest.mark.parametrize("candidates", ["scan", "index"])
@pytest.mark.parametrize("whole", [True, False])
def test_writes_that_torch_does_not_count_are_seen_or_told(
    folder: RunFolder, candidates: str, whole: bool
) -> None:
    """A `.data` write to a whole table is seen, one to single rows once the engine forgets."""
    pytest.importorskip("faiss")
    opened(folder).index()
    run = opened(folder, candidates=candidates, calibration="sigmoid")
    run.ask(QUESTIONS["2p"])
    weight = run.engine.scorer.entities.weight  # type: ignore[attr-defined]
    weight.data[slice(None) if whole else slice(7, 190)] *= -1.3
    if not whole:
        run.engine.forget()
    exact = run.engine.with_settings(search="exact", candidates="rows")
    for name in ("1p", "2p"):
        same(run.ask(QUESTIONS[name]), exact.ask(QUESTIONS[name]))


@pytest.mark.parametrize("candidates", ["scan", "index"])
@pytest.mark.parametrize("whole", [True, False])
def test_no_engine_made_after_such_a_write_uses_what_is_on_disk_or_keeps_anything_there(
    folder: RunFolder, candidates: str, whole: bool
) -> None:
    pytest.importorskip("faiss")
    opened(folder).index()
    settings = {"candidates": candidates, "calibration": "sigmoid"}
    opened(folder, **settings).ask(QUESTIONS["2p"])
    run = opened(folder)
    weight = run.engine.scorer.entities.weight  # type: ignore[attr-defined]
    weight.data[slice(None) if whole else slice(7, 190)] *= -1.3
    if not whole:
        run.engine.forget()
    exact = run.engine.with_settings(search="exact", calibration="sigmoid")
    for name in ("1p", "2p"):
        same(run.engine.with_settings(**settings).ask(QUESTIONS[name]), exact.ask(QUESTIONS[name]))
    with pytest.raises(RunError, match="written to in memory"):
        run.index()
    same(
        opened(folder, candidates="scan", calibration="sigmoid").ask(QUESTIONS["1p"]),
        opened(folder, search="exact", calibration="sigmoid").ask(QUESTIONS["1p"]),
    )


def test_a_copy_of_weights_that_were_written_to_is_not_answered_by_what_is_on_disk(
    folder: RunFolder,
) -> None:
    settings = {"candidates": "scan", "calibration": "sigmoid"}
    opened(folder, **settings).ask(QUESTIONS["1p"])
    run = opened(folder)
    run.engine.scorer.entities.weight.data.mul_(-1.3)  # type: ignore[attr-defined]
    copied = pickle.loads(pickle.dumps(run.engine))
    exact = run.engine.with_settings(search="exact", calibration="sigmoid")
    same(copied.with_settings(**settings).ask(QUESTIONS["1p"]), exact.ask(QUESTIONS["1p"]))


def test_an_index_answers_and_promises_nothing(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    monkeypatch.setattr(index_top, "_DRAWN", 100)
    monkeypatch.setattr(index_top, "_SUMMED", 40)
    monkeypatch.setattr(index_top, "_EXACT", 8)
    run = opened(folder)
    built = run.index(nlist=20)
    assert (built["entities"], built["nlist"]) == (N, 20)
    assert folder.has(INDEX)
    assert folder.has(CODES)
    exact = run.engine.with_settings(search="exact")
    for name in ("1p", "2p", "2i", "2u"):
        found = run.engine.with_settings(candidates="index", nprobe=8).ask(QUESTIONS[name])
        assert found.certified is False
        assert found.estimated
        assert "estimates" in str(found)
        assert "estimates" in found._repr_html_()
        assert found.to_dict()["estimated"] is True
        assert len(set(found.entities) & set(exact.ask(QUESTIONS[name]).entities)) >= 5
        assert found.settings["candidates"] == "index"
    by_sigmoid = run.engine.with_settings(candidates="index", nprobe=8, calibration="sigmoid").ask(
        QUESTIONS["2p"]
    )
    assert by_sigmoid.certified is False
    assert not by_sigmoid.estimated
    assert "estimates" not in str(by_sigmoid)


def test_a_scan_sums_rows_while_it_lists_them(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = opened(folder, search="certified", candidates="scan", calibration="softmax-count", k=N)
    passes = list[int]()
    top = ScanRetriever.top

    def counted(self: ScanRetriever, heads: Tensor, relations: Tensor, m: int) -> TopK:
        passes.append(m)
        return top(self, heads, relations, m)

    monkeypatch.setattr(ScanRetriever, "top", counted)
    assert not run.ask(QUESTIONS["1p"]).estimated
    assert passes
    assert 0 not in passes  # which sums alone


def test_what_the_index_does_by_itself_depends_on_size(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("faiss")
    run = opened(folder)
    run.index()
    assert run.engine.config["candidates"] == "rows"
    monkeypatch.setattr("tacit.engine.parts.WORTH", N - 1)
    large = opened(folder).engine
    assert (large.config["candidates"], large.config["search"]) == ("index", "beam")
    assert "the index may have missed better answers" in str(large.ask(QUESTIONS["2p"]))
    for settings in (
        {"search": "exact"},
        {"search": "certified"},
        {"calibration": "minmax"},
        {"typed": True},
    ):
        assert opened(folder, **settings).engine.config["candidates"] == "rows"
    pickled = pickle.loads(pickle.dumps(opened(folder).engine))
    assert pickled.config["candidates"] == "index"
    assert pickled.ask(QUESTIONS["2p"]).entities == opened(folder).ask(QUESTIONS["2p"]).entities


def test_an_index_of_other_weights_is_refused(folder: RunFolder) -> None:
    pytest.importorskip("faiss")
    opened(folder).index()
    save_model(folder, model(seed=2))
    for settings in ({"candidates": "index"}, {"candidates": "scan", "calibration": "sigmoid"}):
        with pytest.raises(RunError, match="other weights than the run has; build it again"):
            opened(folder, **settings).ask(QUESTIONS["1p"])
    scan = opened(folder, candidates="scan", search="certified")  # needs neither
    same(scan.ask(QUESTIONS["2p"]), opened(folder, search="exact").ask(QUESTIONS["2p"]))


def test_rows_kept_of_other_weights_or_rules_are_not_believed(folder: RunFolder) -> None:
    opened(folder, candidates="scan").ask(QUESTIONS["2p"])
    for settings in ({}, {"loops": True}):
        scan = opened(folder, candidates="scan", search="certified", **settings)
        same(
            scan.ask(QUESTIONS["2p"]),
            opened(folder, search="exact", **settings).ask(QUESTIONS["2p"]),
        )
    save_model(folder, model(seed=3))
    scan = opened(folder, candidates="scan", search="certified")
    same(scan.ask(QUESTIONS["2p"]), opened(folder, search="exact").ask(QUESTIONS["2p"]))


def test_a_run_that_was_copied_keeps_its_index(folder: RunFolder, tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    import shutil

    opened(folder).index()
    (folder.path / MODEL).touch()  # another time, the same weights
    assert opened(folder, candidates="index").ask(QUESTIONS["1p"])
    shutil.copytree(folder.path, tmp_path / "copy")
    assert opened(RunFolder(tmp_path / "copy"), candidates="index").ask(QUESTIONS["1p"])


def test_what_cannot_be_is_refused_in_a_line(folder: RunFolder) -> None:
    with pytest.raises(
        SettingsError, match="candidates is 'index', which serves beam and certified search"
    ):
        opened(folder, search="exact", candidates="index")
    with pytest.raises(SettingsError, match="lists cannot serve"):
        opened(folder, candidates="scan", calibration="minmax").ask(QUESTIONS["1p"])
    with pytest.raises(RunError, match=r"has no index.*; build one first"):
        opened(folder, candidates="index").ask(QUESTIONS["1p"])
    with pytest.raises(SettingsError, match="candidates is 'index'"):
        Engine(graph(), model(), candidates="index").ask(QUESTIONS["1p"])
    with pytest.raises(SettingsError, match="an evaluation ranks all entities"):
        opened(folder).evaluate(candidates="scan")
    with pytest.raises(SettingsError, match="this model measures distances"):
        RunRetrievers(folder).build(TransE(N, 2 * R, 4))


def test_all_shapes_are_answered_as_a_beam_that_keeps_everything(folder: RunFolder) -> None:
    engine = Engine(graph(), load_model(folder), k=N, candidates="scan")
    rows = engine.with_settings(candidates="rows")
    for shape in SHAPES.values():
        same(engine.ask(str(shape.query)), rows.ask(str(shape.query)))


def test_what_rows_would_take_is_foretold_of_rows_alone() -> None:
    rows = Engine(graph(), model(), candidates="rows")
    lists = rows.with_settings(candidates="scan")
    for name, question in QUESTIONS.items():
        taken = rows.seconds(question)
        assert lists.seconds(question) == (taken if name in OVER_ROWS else None), name
