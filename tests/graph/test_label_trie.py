"""Labels in a trie equal those of a list, and complete and suggest alike."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.graph.labels.spelling import word_rows
from tacit.graph.labels.vocabulary import LabelTrie, Vocabulary, trie_of

WORDS = st.lists(
    st.sampled_from(["New", "york", "São", "ÿ", "ß", "x-y", "", "9", "łódź", "日本"]),
    min_size=1,
    max_size=3,
)
LABELS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
    | st.builds("_".join, WORDS)
    | st.builds(" ".join, WORDS)
    | st.sampled_from(["a\\n", "a\n", "a\t", " a ", "A"]),
    unique=True,
    max_size=12,
)


def in_a_trie(labels: list[str]) -> LabelTrie:
    made = trie_of(labels)
    assert made is not None
    return LabelTrie(*made)


@pytest.fixture(autouse=True)
def marisa() -> None:
    pytest.importorskip("marisa_trie")


@settings(max_examples=60, deadline=None)
@given(LABELS, st.text(max_size=4), st.data())
def test_a_trie_is_a_list(labels: list[str], other: str, data: st.DataObject) -> None:
    named = (
        data.draw(st.dictionaries(st.sampled_from(labels), st.lists(st.text(max_size=3))))
        if labels
        else {}
    )
    listed = Vocabulary(labels, names=named)
    stored = Vocabulary(in_a_trie(labels), names=named)
    assert listed == stored == listed
    assert list(stored) == labels == [stored[i] for i in range(len(labels))]
    assert stored[1:4] == labels[1:4]
    assert stored.names == listed.names
    for text in [*labels, other, *(name for names in named.values() for name in names)]:
        assert (text in stored, stored.get(text)) == (text in listed, listed.get(text))
        assert stored.complete(text[:2]) == listed.complete(text[:2])
        assert stored.nearest(text) == listed.nearest(text)
    if labels:
        assert Vocabulary([*labels[:-1], labels[-1] + "x"]) != stored != Vocabulary(labels[:-1])


@pytest.mark.parametrize("strange", ["a\0", "\0", "\ud800", 7, None])
def test_what_no_trie_can_hold_is_not_in_it(strange: object) -> None:
    assert strange not in in_a_trie(["a", ""])
    assert in_a_trie(["a", ""]).find(strange) is None


def test_labels_that_end_a_look_up_are_listed() -> None:
    assert trie_of(["a\0b", "a"]) is None


def test_a_trie_opens_from_its_file(tmp_path: Path) -> None:
    labels = [f"entity {i}" for i in Random(0).sample(range(1000), 100)]
    made = trie_of(labels)
    assert made is not None
    made[0].save(str(tmp_path / "x.marisa"))
    assert list(LabelTrie.open(tmp_path / "x.marisa", made[1])) == labels


@settings(max_examples=60, deadline=None)
@given(LABELS, st.text("nyNs 9_-", min_size=1, max_size=3))
def test_completions_are_those_of_a_search_through_all(labels: list[str], prefix: str) -> None:
    from tacit.graph.labels.spelling import spaced

    def match_rank(label: str) -> int | None:
        form = spaced(label)
        target = spaced(prefix)
        if form.startswith(target):
            return 0
        return 1 if re.search(rf"(?<!\w)(?=\w){re.escape(target)}", form) else None

    found = [label for label in labels if match_rank(label) is not None]
    expected = sorted(found, key=lambda label: (match_rank(label), len(label), label))
    assert Vocabulary(labels).complete(prefix, 20) == expected


def test_a_label_that_is_a_page_takes_no_more_room_than_a_line_of_each_word() -> None:
    words = [f"word{i}" for i in range(1000)]
    pages = [" ".join(words[i:] + words[:i]) for i in range(0, 100, 10)]
    assert word_rows(pages).shape == (2, 10 * (1 + 50))
    vocabulary = Vocabulary([*pages, "a word"])
    beginning = " ".join(words[30:60])  # longer than what is kept in order
    for prefix in ("a w", words[20], beginning, beginning + " word6", beginning + " no"):
        expected = {
            page
            for page in vocabulary
            if any(page.split(" ", i)[-1].startswith(prefix) for i in range(51))
        }
        assert set(vocabulary.complete(prefix, 20)) == expected
    assert len(expected) == 0


def test_equal_words_do_not_crowd_out_the_label_itself() -> None:
    labels = [f"{i} York" for i in range(100)] + ["York"]
    assert Vocabulary(labels).complete("york", 1) == ["York"]


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tacit.graph.labels.spelling.LARGE", 10)
    monkeypatch.setattr("tacit.graph.labels.spelling._AROUND", 3)


@pytest.mark.usefixtures("few_are_many")
def test_many_labels_bring_the_nearest_too() -> None:
    random = Random(1)
    labels = [
        "".join(random.choices("abcdefgh _-", k=random.randint(4, 9))).strip(" _-") + "z"
        for _ in range(400)
    ]
    labels = list(dict.fromkeys([*labels, "São Paulo", "New York", "New-York", "Castrop-Rauxel"]))
    for vocabulary in (Vocabulary(labels), Vocabulary(in_a_trie(labels))):
        # all of them: nobody may choose unasked
        assert vocabulary.nearest("newyork") == ["New York", "New-York"]
        assert vocabulary.nearest("SAO PAULO") == ["São Paulo"]
        assert vocabulary.nearest("castrop rauxl") == ["Castrop-Rauxel"]
        # three letters away, the same beginning
        assert vocabulary.nearest("castrob-rauksel")[:1] == ["Castrop-Rauxel"]
        for label in random.sample(labels, 60):
            at = random.randrange(len(label))
            typo = label[:at] + random.choice(["q", label[at] + "q", ""]) + label[at + 1 :]
            same = [other for other in labels if fold(other) == fold(typo)]
            if fold(typo) and not same:  # as many may be as near, but one letter away something is
                assert vocabulary.nearest(typo, 1), (label, typo)
                assert distance(fold(vocabulary.nearest(typo, 1)[0]), fold(typo)) == 1
            elif same:
                assert vocabulary.nearest(typo, 9) == same


def fold(text: str) -> str:
    return re.sub(r"[\W_]", "", text.casefold())


def distance(one: str, other: str) -> int:
    """Insertions, deletions, substitutions and swaps, by the table of Wagner and Fischer."""
    table = {(i, j): i + j for i in range(len(one) + 1) for j in range(len(other) + 1)}
    for i, a in enumerate(one, 1):
        for j, b in enumerate(other, 1):
            ways = [table[i - 1, j] + 1, table[i, j - 1] + 1, table[i - 1, j - 1] + (a != b)]
            if i > 1 and j > 1 and (a, b) == (other[j - 2], one[i - 2]):
                ways.append(table[i - 2, j - 2] + 1)
            table[i, j] = min(ways)
    return table[len(one), len(other)]


@pytest.mark.usefixtures("few_are_many")
def test_forms_that_were_kept_serve_as_new_ones_do() -> None:
    labels = [f"Label {i} of {'abc'[i % 3]}" for i in range(40)]
    names = {"Label 3 of a": ["Third", "drei"], "Label 5 of c": ["Fifth"]}
    fresh = Vocabulary(labels, names=names)
    restored_vocabulary = Vocabulary(in_a_trie(labels), names=names, forms=fresh.spelling.rows())
    for typed in ("lab", "of b", "thi", "drei", "1", "fivth", "lable 12 of a"):
        assert restored_vocabulary.complete(typed) == fresh.complete(typed)
        assert restored_vocabulary.nearest(typed) == fresh.nearest(typed)
    assert fresh.nearest("Fivth") == ["Fifth"]
    assert fresh.complete("drei") == ["drei"]
