"""The cluster index against scans: nearly equal, and never sure of unseen clusters."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from tacit.errors import RunError, SettingsError
from tacit.graph.fact_index import FactIndex
from tacit.links import index as index_top
from tacit.links.index import IndexRetriever, build_index, read_stamp
from tacit.links.models import ComplEx, DistMult
from tacit.links.retrievers import ScanRetriever

faiss = pytest.importorskip("faiss")
R = 4
LOOPLESS = torch.tensor([True, False, True, False])
NOTHING = FactIndex(np.empty((0, 3), dtype=np.int32), R)  # is known


def model(entities: int = 3000, seed: int = 0) -> ComplEx:
    made = ComplEx(entities, R, 4).requires_grad_(False)
    made.reset(1.0, torch.Generator().manual_seed(seed))
    return made


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("index") / "index.faiss"
    build_index(path, model().keys(), "weights")
    return path


@pytest.mark.parametrize("options", [{"nlist": 0}, {"nlist": -5}, {"seed": 2**31}, {"seed": -1}])
def test_numbers_that_faiss_cannot_take_are_refused(
    tmp_path: Path, options: dict[str, int]
) -> None:
    with pytest.raises(SettingsError, match=f"^{next(iter(options))} is"):
        build_index(tmp_path / "index.faiss", model(10).keys(), "weights", **options)


def rows(count: int = 30) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(count) * 7, torch.arange(count) % R


@pytest.mark.parametrize("m", [1, 20, 400, 3000])
def test_looking_everywhere_is_a_scan(built: Path, m: int) -> None:
    scorer = model()
    (heads, relations) = rows()
    found = IndexRetriever(scorer, built, "weights", LOOPLESS, NOTHING, nprobe=10**6).top(
        heads, relations, m
    )
    expected = ScanRetriever(scorer, LOOPLESS).top(heads, relations, m)
    torch.testing.assert_close(found.logits, expected.logits, rtol=1e-5, atol=1e-5)
    assert bool(found.rest.isposinf().all())
    # but for what rounding puts in another order
    assert (found.ids == expected.ids).float().mean() > 0.99


def test_few_clusters_give_exact_scores_of_what_they_find_and_promise_nothing(built: Path) -> None:
    scorer = model()
    (heads, relations) = rows()
    top = IndexRetriever(scorer, built, "weights", LOOPLESS, NOTHING, nprobe=8).top(
        heads, relations, 10
    )
    assert bool(top.rest.isposinf().all())
    scores = scorer.logits(heads, relations)
    torch.testing.assert_close(top.logits, scores.gather(1, top.ids), rtol=1e-5, atol=1e-5)
    assert not bool((top.ids == heads[:, None])[LOOPLESS[relations]].any())
    best = ScanRetriever(scorer, LOOPLESS).top(heads, relations, 10)
    recall = (
        sum(len(set(a) & set(b)) for a, b in zip(top.ids.tolist(), best.ids.tolist(), strict=True))
        / 300
    )
    assert recall > 0.5  # 8 of 219 clusters, of keys that form none


def test_what_lies_beside_known_tails_is_found_though_its_cluster_is_far(built: Path) -> None:
    scorer = model()
    (heads, relations) = rows(200)
    best = ScanRetriever(scorer, LOOPLESS).top(heads, relations, 1).ids[:, 0]
    facts = FactIndex(torch.stack([heads, relations, best], dim=1).numpy(), R)
    near, known = (
        IndexRetriever(scorer, built, "weights", LOOPLESS, known_facts, nprobe=1)
        for known_facts in (NOTHING, facts)
    )
    assert bool((known.top(heads, relations, 1).ids[:, 0] == best).all())
    assert not bool((near.top(heads, relations, 1).ids[:, 0] == best).all())
    top = known.top(heads, relations, 300)
    for row in top.ids.tolist():
        listed = [tail for tail in row if tail >= 0]
        assert len(set(listed)) == len(listed)


def test_short_lists_are_the_beginning_of_longer_ones(built: Path) -> None:
    retriever = IndexRetriever(model(), built, "weights", LOOPLESS, NOTHING, nprobe=8)
    (heads, relations) = rows()
    short = retriever.top(heads, relations, 10)
    long = retriever.top(heads, relations, 128)
    assert short.ids.tolist() == long.ids[:, :10].tolist()
    assert short.logits.tolist() == long.logits[:, :10].tolist()


def test_an_index_of_other_weights_is_refused(built: Path) -> None:
    with pytest.raises(RunError, match="other weights"):
        IndexRetriever(model(), built, "retrained", LOOPLESS, NOTHING)
    with pytest.raises(RunError, match="other weights"):
        IndexRetriever(model(2999), built, "weights", LOOPLESS, NOTHING)


@pytest.mark.parametrize("length", [0, 10, 0.5, 0.999])
def test_an_index_cut_short_is_refused(built: Path, tmp_path: Path, length: float) -> None:
    whole = built.read_bytes()
    cut = tmp_path / "cut.faiss"
    cut.write_bytes(whole[: int(length * len(whole)) if length < 1 else int(length)])
    with pytest.raises(RunError, match="build it again"):
        IndexRetriever(model(), cut, "weights", LOOPLESS, NOTHING)


def test_a_damaged_middle_is_refused(built: Path, tmp_path: Path) -> None:
    whole = built.read_bytes()
    cut = tmp_path / "cut.faiss"
    cut.write_bytes(whole[:100] + whole[len(whole) // 2 :])
    with pytest.raises(RunError, match="build it again"):
        IndexRetriever(model(), cut, "weights", LOOPLESS, NOTHING)


@pytest.mark.parametrize("place", [4, 40, 400, 4000])
def test_a_byte_that_was_changed_is_refused(built: Path, tmp_path: Path, place: int) -> None:
    whole = bytearray(built.read_bytes())
    changed = tmp_path / "changed.faiss"
    whole[place] ^= 0xFF
    changed.write_bytes(whole)
    with pytest.raises(RunError, match=r"changed\.faiss is no index or damaged \(it was changed\)"):
        IndexRetriever(model(), changed, "weights", LOOPLESS, NOTHING)


@pytest.mark.parametrize(
    "change", [{"nlist": "4"}, {"nlist": 0}, {"entities": None}, {"more": 1}, {"weights": 1}]
)
def test_stamps_of_odd_types_are_refused(
    built: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    whole = built.read_bytes()
    other = tmp_path / "other.faiss"
    start = whole.rindex(b'{"weights"')
    said = json.loads(whole[start : whole.rindex(b"}") + 1]) | change
    text = json.dumps(said).encode()
    other.write_bytes(whole[:start] + text + len(text).to_bytes(8, "little") + b"tacit index")
    with pytest.raises(RunError, match=r"other\.faiss is no index or damaged"):
        read_stamp(other)


def test_a_sum_of_a_sample_is_near_and_says_what_it_is(
    built: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_top, "_DRAWN", 1000)
    monkeypatch.setattr(index_top, "_SUMMED", 200)
    scorer = model()
    (heads, relations) = rows(200)
    scan = ScanRetriever(scorer, LOOPLESS)
    known = torch.stack([heads, relations, scan.top(heads, relations, 1).ids[:, 0]], dim=1)
    total, exact = IndexRetriever(
        scorer, built, "weights", LOOPLESS, FactIndex(known.numpy(), R)
    ).log_sums(heads, relations)
    assert not bool(exact.any())
    expected = scan.log_sums(heads, relations)[0]
    assert float((total - expected).abs().median()) < 0.05
    assert abs(float((total - expected).exp().mean()) - 1) < 0.05  # it leans to neither side


def test_a_small_graph_is_summed_exactly(built: Path) -> None:
    scorer = model()
    (heads, relations) = rows()
    total, exact = IndexRetriever(scorer, built, "weights", LOOPLESS, NOTHING).log_sums(
        heads, relations
    )
    assert bool(exact.all())
    torch.testing.assert_close(total, ScanRetriever(scorer, LOOPLESS).log_sums(heads, relations)[0])


def test_an_index_can_be_pickled_and_says_what_it_is_of(built: Path) -> None:
    retriever = IndexRetriever(model(), built, "weights", LOOPLESS, NOTHING)
    (heads, relations) = rows()
    again = pickle.loads(pickle.dumps(retriever))
    assert (
        again.top(heads, relations, 5).ids.tolist()
        == retriever.top(heads, relations, 5).ids.tolist()
    )
    stamp = read_stamp(built)
    assert (stamp.entities, stamp.width, stamp.nlist) == (3000, 8, round(4 * 3000**0.5))


def test_identical_keys_and_fewer_of_them_than_clusters(tmp_path: Path) -> None:
    same = DistMult(5, R, 3).requires_grad_(False)
    same.entities.weight.fill_(1.0)
    same.relations.weight.fill_(1.0)
    build_index(tmp_path / "index.faiss", same.keys(), "weights", nlist=50)
    retriever = IndexRetriever(same, tmp_path / "index.faiss", "weights", LOOPLESS, NOTHING)
    top = retriever.top(torch.tensor([1, 1]), torch.tensor([0, 1]), 3)
    assert top.ids.tolist() == [[0, 2, 3], [0, 1, 2]]
