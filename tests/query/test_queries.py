"""Sets of queries, their answers, and BetaE's files there and back."""

from __future__ import annotations

import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tacit.errors import DataError
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling.queries import QuerySet, read_queries, write_queries
from tacit.query.sampling.shapes import SHAPES, STRUCTURES


def ids(*rows: tuple[int, ...]) -> np.ndarray:
    return np.array(rows, dtype=np.int32)


@pytest.fixture
def sets() -> dict[str, QuerySet]:
    easy = AnswerSets.of([{3}, set()])
    hard = AnswerSets.of([{1, 2}, {0}])
    union = QuerySet(SHAPES["2u"], ids((4, 5), (6, 7)), ids((0, 1), (2, 3)), easy, hard)
    return {
        "2u": union,
        "2u-DM": QuerySet(SHAPES["2u"], union.entities, union.relations, easy, hard, "dm"),
        "pni": QuerySet(
            SHAPES["pni"], ids((1, 2)), ids((1, 2, 3)), AnswerSets.of([[4]]), AnswerSets.of([[9]])
        ),
    }


def test_answers() -> None:
    answers = AnswerSets.of([[5, 2, 5], [], [7]])
    assert [one.tolist() for one in answers] == [[2, 5], [], [7]]
    assert answers[-1].tolist() == [7]
    assert answers.offsets.tolist() == [0, 2, 2, 3]
    assert answers.rows.tolist() == [0, 0, 2]
    assert answers.subset(np.array([2, 0])).to_sets() == [{7}, {2, 5}]
    assert answers.minus(AnswerSets.of([[5], [7], [7]])).to_sets() == [{2}, set(), set()]
    assert answers.keys(10).tolist() == [2, 5, 27]
    assert AnswerSets.none(2).to_sets() == [set(), set()]


@pytest.mark.parametrize("wrong", [["a"], [1.5], [-1], [2**31], [True]])
def test_answers_are_ids(wrong: list[Any]) -> None:
    with pytest.raises(DataError, match="ids"):
        AnswerSets.of([wrong])


def test_parts_of_a_set(sets: dict[str, QuerySet]) -> None:
    second = sets["2u"][1:]
    assert (len(second), second.entities.tolist(), second.hard.to_sets()) == (1, [[6, 7]], [{0}])
    assert sets["2u-DM"].name == "2u-DM"
    many = QuerySet(
        SHAPES["1p"], *(np.arange(200, dtype=np.int32)[:, None],) * 2, *(AnswerSets.none(200),) * 2
    )
    few = many.share(0.05, seed=1)
    assert len(few) == len(set(few.entities[:, 0].tolist())) == 10
    np.testing.assert_array_equal(few.entities, many.share(0.05, seed=1).entities)
    assert few.entities.tolist() != many.share(0.05, seed=2).entities.tolist()
    assert len(many.share(0.0001)) == 1


@pytest.mark.parametrize("split", ["valid", "test"])
def test_there_and_back(tmp_path: Path, sets: dict[str, QuerySet], split: str) -> None:
    write_queries(tmp_path / "made", split, sets)
    again = read_queries(tmp_path / "made", split)
    assert again.keys() == sets.keys()
    for name, one in again.items():
        assert one.shape == sets[name].shape
        assert one.encoding == sets[name].encoding
        assert one.tuples() == sets[name].tuples()
        assert one.easy.to_sets() == sets[name].easy.to_sets()
        assert one.hard.to_sets() == sets[name].hard.to_sets()
    assert list(read_queries(tmp_path / "made", split, "pni,2u")) == ["pni", "2u"]


def test_files_are_betaes(tmp_path: Path, sets: dict[str, QuerySet]) -> None:
    write_queries(tmp_path, "test", sets)
    queries, easy, hard = (
        pickle.loads((tmp_path / f"test-{name}.pkl").read_bytes())
        for name in ("queries", "easy-answers", "hard-answers")
    )
    assert type(queries) is type(easy) is defaultdict
    assert easy["anything"] == set()
    assert queries[STRUCTURES["pni"]] == {((1, (1, 2, -2)), (2, (3,)))}
    assert queries[STRUCTURES["2u"]] == {
        ((4, (0,)), (5, (1,)), (-1,)),
        ((6, (2,)), (7, (3,)), (-1,)),
    }
    assert hard[((4, (0,)), (5, (1,)), (-1,))] == {1, 2}
    assert hard[(((4, (0, -2)), (5, (1, -2))), (-2,))] == {1, 2}


def test_train_queries_have_one_table_or_none(tmp_path: Path, sets: dict[str, QuerySet]) -> None:
    write_queries(tmp_path, "train", sets)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "train-answers.pkl",
        "train-queries.pkl",
    ]
    read = read_queries(tmp_path, "train")["2u"]
    assert (read.easy.to_sets(), read.hard.to_sets()) == ([set(), set()], [{1, 2}, {0}])
    (tmp_path / "train-answers.pkl").unlink()
    assert read_queries(tmp_path, "train")["2u"].hard.to_sets() == [set(), set()]


def write_tables(folder: Path, queries: Any, easy: Any = None, hard: Any = None) -> None:
    for name, table in (
        ("queries", queries),
        ("easy-answers", easy or {}),
        ("hard-answers", hard or {}),
    ):
        (folder / f"test-{name}.pkl").write_bytes(pickle.dumps(table))


def nested(depth: int) -> Any:
    """A list of 2**depth numbers, most of which are the same list."""
    return [nested(depth - 1)] * 2 if depth else 7


BROAD: Any = ("e", ("r",))  # 16 million parts
for _ in range(4):
    BROAD = (BROAD,) * 64
SHARED = list(range(1000))
ONE = {STRUCTURES["1p"]: {(7, (1,))}}
DEEP: Any = "e"
for _ in range(300):
    DEEP = (DEEP, ("r",))


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (([],), "dict of structures"),
        (({"1p": set()},), "no BetaE query structure"),
        (({("e", ("x",)): {(7, (1,))}},), "no BetaE query structure"),
        (({("e", ("r",) * 1000): set()},), "no BetaE query structure"),
        (({STRUCTURES["1p"]: 7},), "cannot be read"),
        (({DEEP: set()},), "no BetaE query structure"),
        (({STRUCTURES["1p"]: {(7, (1, 2))}},), "does not have the structure"),
        (({STRUCTURES["1p"]: {(7, ("1",))}},), "whole numbers"),
        ((ONE, [1]), "dict of queries"),
        ((ONE, {(7, (1,)): 5}), "cannot be read"),
        ((ONE, {}, {(7, (1,)): {"x"}}), "ids"),
        ((ONE, {}, {(7, (2,)): {8}}), "1p has 1 of 1 queries that the file of answers"),
        (({BROAD: []},), "no BetaE query structure"),
        (({("e", ("r",)): [(nested(40), (1,))]},), "something other than whole numbers"),
        ((ONE, {(7, (1,)): [nested(40)]}), "answers must be entity ids"),
        ((ONE, {(i, (1,)): SHARED for i in range(200)}), "200,000 entries in a file of"),
        (
            ({("e", ("r",) * length): SHARED for length in range(1, 60)},),
            "59,000 entries in a file of",
        ),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, tables: tuple[Any, ...], says: str) -> None:
    write_tables(tmp_path, *tables)
    with pytest.raises(DataError, match=says):
        read_queries(tmp_path, "test")


def test_what_is_absent_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no test-queries\.pkl"):
        read_queries(tmp_path, "test")
    write_tables(tmp_path, ONE)
    with pytest.raises(DataError, match=r"a folder of queries has test-queries\.pkl here"):
        read_queries(tmp_path, "valid")
    with pytest.raises(DataError, match="holds no 2i queries; it holds 1p"):
        read_queries(tmp_path, "test", "1p,2i")
    (tmp_path / "test-hard-answers.pkl").unlink()
    with pytest.raises(DataError, match="test-hard-answers"):
        read_queries(tmp_path, "test")
    (tmp_path / "test-easy-answers.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    with pytest.raises(DataError, match="refused"):
        read_queries(tmp_path, "test")
