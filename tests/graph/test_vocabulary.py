"""Labels and their ids."""

from __future__ import annotations

import pytest

from tacit.errors import UnknownName
from tacit.graph.vocabulary import Vocabulary

PLACES = Vocabulary(["New York", "York", "new_jersey", "São Paulo", "Yorkshire", "Paris"])


def test_labels_and_ids_are_each_other_s_inverse() -> None:
    assert [PLACES.id(label) for label in PLACES] == list(range(6))
    assert PLACES[3] == "São Paulo"
    assert "York" in PLACES
    assert "york" not in PLACES
    assert PLACES.get("york") is None


@pytest.mark.parametrize(
    ("asked", "meant"),
    [
        ("york", "York"),
        ("new york", "New York"),
        ("New-Jersey", "new_jersey"),
        ("Pariss", "Paris"),
        ("Sao Paulo", "São Paulo"),
    ],
)
def test_unknown_labels_bring_the_nearest(asked: str, meant: str) -> None:
    with pytest.raises(UnknownName) as caught:
        PLACES.id(asked)
    assert caught.value.suggestions[0] == meant
    assert f"did you mean '{meant}'" in str(caught.value)


def test_nothing_near_is_no_suggestion() -> None:
    with pytest.raises(UnknownName, match=r"unknown entity 'Timbuktu'$"):
        PLACES.id("Timbuktu")
    assert PLACES.nearest("x" * 1000) == []


def test_the_nearest_of_many_labels() -> None:
    many = Vocabulary(f"label_{i:05}" for i in range(30_000))
    assert many.nearest("label_012345")[0] == "label_12345"
    assert many.nearest("Label 00042") == ["label_00042"]


def test_completion_starts_with_whole_labels_then_words() -> None:
    assert PLACES.complete("yor") == ["York", "Yorkshire", "New York"]
    assert PLACES.complete("NEW") == ["New York", "new_jersey"]
    assert PLACES.complete("new j") == ["new_jersey"]
    assert PLACES.complete("new_y") == ["New York"]
    assert PLACES.complete("pau") == ["São Paulo"]
    assert PLACES.complete("sao p") == PLACES.complete("SÃO") == ["São Paulo"]
    assert Vocabulary(["Łódź"]).complete("lodz") == Vocabulary(["Łódź"]).nearest("lodz") == ["Łódź"]
    assert PLACES.complete("", limit=2) == ["New York", "York"]
    assert PLACES.complete("yor", limit=1) == ["York"]
    assert PLACES.complete("zz") == []


def test_a_label_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="relation label 'in' occurs twice"):
        Vocabulary(["in", "on", "in"], kind="relation")


def test_vocabularies_are_equal_by_their_labels() -> None:
    assert Vocabulary(["a", "b"]) == Vocabulary(["a", "b"])
    assert Vocabulary(["a", "b"]) != Vocabulary(["b", "a"])
