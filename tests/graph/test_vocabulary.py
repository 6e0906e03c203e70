"""Labels and their ids."""

from __future__ import annotations

import random
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.errors import UnknownName
from tacit.graph.labels.vocabulary import Vocabulary

PLACES = Vocabulary(["New York", "York", "new_jersey", "São Paulo", "Yorkshire", "Paris"])


def test_labels_and_ids_are_each_other_s_inverse() -> None:
    assert [PLACES.id(label) for label in PLACES] == list(range(6))
    assert PLACES[3] == "São Paulo"
    assert "York" in PLACES
    assert "york" not in PLACES
    assert PLACES.get("york") is None


@pytest.mark.parametrize(
    ("label", "meant"),
    [
        ("york", "York"),
        ("new york", "New York"),
        ("New-Jersey", "new_jersey"),
        ("Pariss", "Paris"),
        ("Sao Paulo", "São Paulo"),
    ],
)
def test_unknown_labels_bring_the_nearest(label: str, meant: str) -> None:
    with pytest.raises(UnknownName) as caught:
        PLACES.id(label)
    assert caught.value.suggestions[0] == meant
    assert f"did you mean '{meant}'" in str(caught.value)


RELATIONS = Vocabulary(
    ["city_in", "capital_of", "borders", "in_continent", "official_language", "uses_currency"]
)


@pytest.mark.parametrize(
    ("label", "meant"),
    [
        ("capital", "capital_of"),  # its beginning
        ("continent", "in_continent"),  # a word of it
        ("lang", "official_language"),  # the beginning of a word
        ("borders_with", "borders"),  # more words than it has
        ("has capital", "capital_of"),  # another word beside one of its own
        ("is_capital_of", "capital_of"),
        ("border", "borders"),  # by spelling, as before
    ],
)
def test_a_part_of_a_label_suggests_it(label: str, meant: str) -> None:
    assert RELATIONS.nearest(label) == [meant]


def test_what_is_spelt_alike_is_suggested_before_what_shares_words() -> None:
    names = Vocabulary(["capital city", "capitol", "capital", "the capitall"])
    assert names.nearest("capitel") == ["capitol", "capital"]
    assert names.nearest("capita") == ["capital", "capital city", "the capitall"]
    assert names.nearest("qqq") == []


def test_nothing_near_is_no_suggestion() -> None:
    with pytest.raises(UnknownName, match=r"unknown entity 'Timbuktu'$"):
        PLACES.id("Timbuktu")
    assert PLACES.nearest("x" * 1000) == []


def typos(word: str, letter: str, at: int) -> list[str]:
    """One letter put in, left out, replaced, and swapped with the next."""
    swapped = word[:at] + word[at + 1 : at + 2] + word[at] + word[at + 2 :]
    return [
        word[:at] + letter + word[at:],
        word[:at] + word[at + 1 :],
        word[:at] + letter + word[at + 1 :],
        swapped,
    ]


def same(label: str) -> str:
    """A label without case, accents and separators, to the eye."""
    return "".join(c for c in normalize("NFKD", label.casefold()) if c.isalnum()) or label


@given(
    labels=st.lists(
        st.text("abAB é_-+ßŁ½", min_size=4, max_size=9), min_size=1, max_size=3, unique_by=same
    ),
    letter=st.sampled_from("abcé_+ß½"),
    data=st.data(),
)
def test_every_one_letter_typo_suggests_its_label(
    labels: list[str], letter: str, data: st.DataObject
) -> None:
    vocabulary = Vocabulary(labels)
    label = data.draw(st.sampled_from(labels))
    for typo in typos(label, letter, data.draw(st.integers(0, len(label) - 1))):
        if vocabulary.nearest(typo) != [other for other in labels if same(other) == same(typo)]:
            assert label in vocabulary.nearest(typo)


def test_typos_are_found_among_many_labels_too() -> None:
    rng = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    labels = sorted({"".join(rng.choices(letters, k=rng.randint(4, 12))) for _ in range(63_000)})
    vocabulary = Vocabulary(labels)
    for label in rng.sample(labels, 25):
        for typo in typos(label, rng.choice(letters), rng.randrange(len(label))):
            near = vocabulary.nearest(typo)
            # there is room for three: others are as near as it is
            if typo not in vocabulary and label not in near:
                assert len(near) == 3
                assert all(one_letter_apart(typo, other) for other in near)


def one_letter_apart(text: str, other: str) -> bool:
    letters = set(other) | {"a"}
    return any(
        other in typos(text, letter, at) for letter in letters for at in range(len(text))
    ) or (len(other) == len(text) + 1 and other.startswith(text))


def test_the_nearest_of_many_labels() -> None:
    many = Vocabulary(f"label_{i:05}" for i in range(30_000))
    assert many.nearest("lable 12345")[0] == "label_12345"
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


def test_some_are_completed_as_all_are() -> None:
    everyone = range(len(PLACES))
    for prefix in ("yor", "NEW", "new_y", "pau", "", "zz", " "):
        assert PLACES.complete(prefix, among=everyone) == PLACES.complete(prefix)
    assert PLACES.complete("yor", among=[4, 0]) == ["Yorkshire", "New York"]
    assert PLACES.complete("", 2, among=[4, 0, 1]) == ["Yorkshire", "New York"]
    marks = Vocabulary(
        ["Saint-Denis", "Q1", "Q2", "Den"], names={"Q1": ["Denmark"], "Q2": ["Den", "Denmark"]}
    )
    assert (
        marks.complete("den", among=[0, 1]) == marks.complete("den")[1::2] == ["Q1", "Saint-Denis"]
    )
    assert marks.complete("den", among=[2]) == ["Q2"]


def test_a_label_that_occurs_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="relation label 'in' occurs twice"):
        Vocabulary(["in", "on", "in"], kind="relation")


def test_vocabularies_are_equal_by_their_labels() -> None:
    assert Vocabulary(["a", "b"]) == Vocabulary(["a", "b"])
    assert Vocabulary(["a", "b"]) != Vocabulary(["b", "a"])
