"""New names near known ones, against edit distances counted elsewhere."""

from __future__ import annotations

import random
import unicodedata
from pathlib import Path

import pytest
from rapidfuzz.distance import OSA

from tacit.cli import error_message
from tacit.errors import DataError
from tacit.graph.labels import near_duplicates
from tacit.graph.labels.near_duplicates import quoted_pair, repeated_names, resembling
from tacit.sources import load


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("iron", "Iron"),
        ("IRON ORE", "Iron ore"),
        ("New  York", "New York"),
        ("New_York", "New York"),
        ("New\u00a0York", "New York"),
        ("World_War_2", "World war 2"),
        ("Ir\u200bon", "Iron"),
        ("Ｉron", "Iron"),
        (unicodedata.normalize("NFD", "Málaga"), "Málaga"),
        ("STRASSE", "Straße"),
    ],
)
def test_names_that_differ_in_case_or_unicode_form_alone_are_the_same(new: str, known: str) -> None:
    assert resembling([new], ["another", known, "Nothing like it"]) == ({new: known}, {})
    assert repeated_names(["another", known, "Nothing like it", new, "another"]) == {new: known}


@pytest.mark.parametrize("separator", ["\t", ";"])
def test_a_table_whose_names_differ_in_case_alone_is_noted(tmp_path: Path, separator: str) -> None:
    rows = [("Köln", "in", "DE"), ("köln", "In", "FR"), ("Bonn", "in", "DE")]
    path = tmp_path / ("g.tsv" if separator == "\t" else "g.csv")
    path.write_text("".join(separator.join(row) + "\n" for row in rows), encoding="utf-8")
    note = (
        "2 pairs differ in case, spaces or Unicode form alone, and each name is one of its own: "
        "'Köln' and 'köln', 'in' and 'In'"
    )
    assert load(path).notes[-1] == load(rows).notes[-1] == load([path, path]).notes[-1] == note
    (tmp_path / "g.nt").write_text("<a:Ab> <a:r> <a:ab> .\n")  # IRIs mean their case
    assert load(tmp_path / "g.nt").notes == load(rows[2:]).notes == ()


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("Argentinia", "Argentina"),
        ("Gemrany", "Germany"),
        ("Grmany", "Germany"),
        ("Getmany", "Germany"),
        ("Malaga", "Málaga"),
        ("new-york", "New York"),
        ("living_room", "livingroom"),
        ("A-12", "A/12"),
        ("Fritz Langue 7", "Fritz Langues 7"),
        ("dbpedia:Argentinia", "dbpedia:Argentina"),
        ("<http://a.org/Argentinia>", "<http://a.org/Argentina>"),
    ],
)
def test_names_that_nearly_repeat_another_are_near(new: str, known: str) -> None:
    assert resembling([new], ["another", known, "Nothing like it"]) == ({}, {new: known})


@pytest.mark.parametrize(
    ("new", "known"),
    [
        ("Q124", "Q123"),
        ("entity_18", "entity_17"),
        ("/m/0abd", "/m/0abc"),
        ("A1.2", "A12"),
        ("A12", "A-12"),
        ("/m/0n6_", "/m/0n6"),
        ("2020-01-01", "2020/01/01"),
        ("-5", "5"),
        ("कमला", "कमल"),
        ("C++", "C"),
        ("boat.n.01", "coat.n.01"),
        ("dog.n.02", "dog.n.01"),
        ("Iran", "Iraq"),
        ("Zambia", "Gambia"),
        ("World War III", "World War II"),
        ("ISO 9001:2015", "ISO 9001:2008"),
        ("_:b1", "_:B1"),
        ('"Iron"', '"iron"'),
        ("", "a"),
        ("x" * 300, "X" * 300),
    ],
)
def test_codes_and_short_words_are_names_of_their_own(new: str, known: str) -> None:
    assert resembling([new], [known]) == ({}, {})


def test_identifiers_of_data_sets_do_not_nag() -> None:
    draw = random.Random(0)
    letters = "0123456789bcdfghjklmnpqrstvwxyz_"
    kinds = [
        [f"/m/0{''.join(draw.choices(letters, k=draw.randint(2, 6)))}" for _ in range(2000)],
        [f"Q{draw.randint(1, 5000)}" for _ in range(2000)],
        [f"entity_{i}" for i in range(2000)],
        [
            f"{draw.choice('ABCDE')}{draw.randint(0, 99):02}.{draw.randint(0, 9)}"
            for _ in range(1000)
        ],
        [f"{draw.getrandbits(128):032x}" for _ in range(1000)],
    ]
    for names in kinds:
        different = list(dict.fromkeys(names))
        half = len(different) // 2
        assert resembling(different[:half], different[half:]) == ({}, {})


@pytest.mark.parametrize("around", ["{}", "of {}", "{} 12 ab", "a:{}/x"])
def test_one_letter_is_one_edit(around: str) -> None:
    """Every pair is compared, by another implementation of edit distance."""
    draw = random.Random(around)
    words = ["".join(draw.choices("abc", k=draw.randint(4, 8))) for _ in range(400)]
    new = set(words[:200])
    known = set(words[200:]) - set(words[:200])
    near = {
        around.format(word)
        for word in new
        for other in known
        if word[0] == other[0]
        and OSA.distance(word, other) == 1
        and max(len(word), len(other)) >= 6
    }
    resemblance = resembling(map(around.format, sorted(new)), map(around.format, sorted(known)))
    assert set(resemblance.near) == near
    assert resemblance.same == {}
    assert 10 < len(near) < len(new)


def test_few_of_many_names_are_looked_at_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    """IRIs that all begin alike would be compared pair by pair otherwise: 25 million times."""
    draw = random.Random(0)
    syllables = ["ba", "ko", "ri", "ten", "mol", "sha", "vi", "gor", "ul", "nes", "tra", "pel"]
    names = ["".join(draw.choices(syllables, k=4)) for _ in range(10_000)]
    iris = [f"http://example.org/resource/{name}" for name in dict.fromkeys(names)]
    compared: list[int] = []
    apart = near_duplicates._one_letter_apart
    monkeypatch.setattr(
        near_duplicates, "_one_letter_apart", lambda *pair: compared.append(1) or apart(*pair)
    )
    resembling(iris[:5000], iris[5000:])
    assert len(compared) < 250_000


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("KÖLN", "Köln"),
        ("Ko\u0308ln", "Köln"),
        ("New\xa0York", "New York"),
        ("New  York", "New York"),
        ("New\u200bYork", "NewYork"),
        ("\uff30aris", "Paris"),
    ],
)
def test_the_difference_of_names_that_are_the_same_can_be_seen(name: str, other: str) -> None:
    """What a terminal shows alike: composed forms, wide letters, marks and spaces of no ASCII."""
    shown = [
        "".join(letter for letter in text if letter.isprintable())
        for text in quoted_pair(name, other)
    ]
    assert unicodedata.normalize("NFKC", shown[0]) != unicodedata.normalize("NFKC", shown[1])
    error = DataError("; ".join(shown))
    assert all(text in str(error_message(error)) for text in shown)
    assert all(text in error.to_dict()["message"] for text in shown)
