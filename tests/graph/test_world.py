"""The embedded graph: what anyone can check by eye, and what its split promises."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

import tacit.graph

ROOT = Path(__file__).parents[2]
FOLDER = Path(tacit.graph.__file__).parent / "world"
SPLITS = ("train", "valid", "test")
Fact = tuple[str, ...]


def read(part: str) -> list[Fact]:
    lines = (FOLDER / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines]


WORLD = {part: read(part) for part in SPLITS}
FACTS = [fact for part in SPLITS for fact in WORLD[part]]


TAILS: dict[Fact, set[str]] = defaultdict(set)
HEADS: dict[Fact, set[str]] = defaultdict(set)
for fact in FACTS:
    TAILS[fact[:2]].add(fact[2])
    HEADS[fact[1:]].add(fact[0])


def tails(head: str, relation: str) -> set[str]:
    return TAILS[head, relation]


def heads(relation: str, tail: str) -> set[str]:
    return HEADS[relation, tail]


def test_every_line_is_a_fact_and_none_occurs_twice() -> None:
    assert all(
        len(fact) == 3 and all(field and field == field.strip() for field in fact) for fact in FACTS
    )
    assert len(set(FACTS)) == len(FACTS)


def test_size() -> None:
    entities = {entity for head, _, tail in FACTS for entity in (head, tail)}
    assert 2_200 <= len(entities) <= 2_400
    assert len(FACTS) >= 5_200
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 250_000


@pytest.mark.parametrize(
    ("city", "country"),
    [
        ("Astana", "Kazakhstan"),
        ("Bogotá", "Colombia"),
        ("Brasília", "Brazil"),
        ("Willemstad", "Curaçao"),
        ("Ngerulmud", "Palau"),
        ("Kingston (Jamaica)", "Jamaica"),
        ("Hamilton (Bermuda)", "Bermuda"),
        ("San José", "Costa Rica"),
        ("Washington", "United States"),
        ("Singapore (city)", "Singapore"),
        ("Luxembourg (city)", "Luxembourg"),
        ("Mexico City", "Mexico"),
    ],
)
def test_capitals(city: str, country: str) -> None:
    assert heads("capital_of", country) == {city}
    assert tails(city, "city_in") == {country}


@pytest.mark.parametrize(
    ("country", "neighbours"),
    [
        ("France", "Andorra Belgium Germany Italy Luxembourg Monaco Spain Switzerland"),
        ("Portugal", "Spain"),
        ("Albania", "Greece Kosovo Montenegro North_Macedonia"),
        ("Botswana", "Namibia South_Africa Zambia Zimbabwe"),
        ("United States", "Canada Mexico"),
        ("Hong Kong", "China"),
        ("French Guiana", "Brazil Suriname"),
        ("Sri Lanka", ""),
        ("Cuba", ""),
    ],
)
def test_neighbours(country: str, neighbours: str) -> None:
    assert tails(country, "borders") == {name.replace("_", " ") for name in neighbours.split()}


def test_borders_is_symmetric_and_never_reflexive() -> None:
    pairs = {(h, t) for h, r, t in FACTS if r == "borders"}
    assert len(pairs) > 600
    assert pairs == {(t, h) for h, t in pairs}
    assert all(h != t for h, t in pairs)


def test_portuguese_in_south_america() -> None:
    assert heads("in_continent", "South America") & heads("speaks", "Portuguese") == {"Brazil"}


def test_african_countries_whose_official_language_is_portuguese() -> None:
    lusophone = heads("in_continent", "Africa") & heads("official_language", "Portuguese")
    assert lusophone == {
        "Angola",
        "Cape Verde",
        "Equatorial Guinea",
        "Guinea-Bissau",
        "Mozambique",
        "São Tomé and Príncipe",
    }


def test_languages_of_switzerland_and_belgium() -> None:
    assert tails("Switzerland", "official_language") >= {"German", "French", "Italian"}
    assert tails("Belgium", "official_language") == {"Dutch", "French", "German"}
    assert "Zulu" in tails("South Africa", "official_language")


def test_currencies() -> None:
    assert {"France", "Croatia", "Bulgaria", "Kosovo"} <= heads("uses_currency", "Euro")
    assert tails("Switzerland", "uses_currency") == {"Swiss Franc"}
    assert {"Senegal", "Mali", "Niger"} <= heads("uses_currency", "West African CFA Franc")
    assert "Denmark" not in heads("uses_currency", "Euro")


def test_subregions_are_the_22_of_the_united_nations() -> None:
    subregions = {t for _, r, t in FACTS if r == "in_subregion"}
    assert len(subregions) == 22
    assert heads("in_subregion", "Central Asia") == {
        "Kazakhstan",
        "Kyrgyzstan",
        "Tajikistan",
        "Turkmenistan",
        "Uzbekistan",
    }


def test_time_zones_of_cities_are_those_of_their_country() -> None:
    assert tails("Marseille", "in_timezone") == {"Europe/Paris"}
    assert {"America/New_York", "America/Los_Angeles", "Pacific/Honolulu"} <= tails(
        "United States", "has_timezone"
    )
    cities = {h for h, r, _ in FACTS if r == "city_in"}
    for city in cities:
        (country,), (zone,) = tails(city, "city_in"), tails(city, "in_timezone")
        assert zone in tails(country, "has_timezone"), city


def test_each_country_has_one_continent_and_one_subregion() -> None:
    countries = {h for h, r, _ in FACTS if r == "in_continent"}
    assert len(countries) == 243
    for country in countries:
        assert len(tails(country, "in_continent")) == len(tails(country, "in_subregion")) == 1
    assert not countries & {
        "Serbia and Montenegro",
        "Netherlands Antilles",
        "Antarctica",
        "Bouvet Island",
    }


def test_a_label_stands_for_one_kind_of_thing() -> None:
    kinds = {
        "city_in": ("city", "country"),
        "in_timezone": ("city", "time zone"),
        "capital_of": ("city", "country"),
        "borders": ("country", "country"),
        "in_continent": ("country", "continent"),
        "in_subregion": ("country", "subregion"),
        "official_language": ("country", "language"),
        "speaks": ("country", "language"),
        "uses_currency": ("country", "currency"),
        "has_timezone": ("country", "time zone"),
    }
    found = defaultdict(set)
    for head, relation, tail in FACTS:
        found[head].add(kinds[relation][0])
        found[tail].add(kinds[relation][1])
    assert {label: kind for label, kind in found.items() if len(kind) > 1} == {}


def test_cities_of_one_name_are_told_apart() -> None:
    assert tails("Hyderabad (India)", "city_in") == {"India"}
    assert tails("Hyderabad (Pakistan)", "city_in") == {"Pakistan"}
    assert {"Suzhou (Jiangsu)", "Suzhou (Anhui)"} <= heads("city_in", "China")
    assert all(
        len(tails(city, "city_in")) == 1 for city, relation, _ in FACTS if relation == "city_in"
    )


def test_the_split_is_80_10_10_in_every_relation() -> None:
    totals = Counter(relation for _, relation, _ in FACTS)
    for part, share in (("train", 0.8), ("valid", 0.1), ("test", 0.1)):
        counts = Counter(relation for _, relation, _ in WORLD[part])
        assert len(counts) == 10
        for relation, count in counts.items():
            assert count / totals[relation] == pytest.approx(share, abs=0.01), (part, relation)


def test_the_split_leaks_no_border_and_leaves_no_entity_unseen() -> None:
    part_of = {fact: part for part in SPLITS for fact in WORLD[part]}
    for head, relation, tail in FACTS:
        if relation == "borders":
            assert part_of[head, relation, tail] == part_of[tail, relation, head]
    seen = {entity for head, _, tail in WORLD["train"] for entity in (head, tail)}
    assert {entity for head, _, tail in FACTS for entity in (head, tail)} == seen


def test_the_build_script_writes_what_is_committed(tmp_path: Path) -> None:
    script = ROOT / "data" / "world" / "build.py"
    subprocess.run([sys.executable, str(script), str(tmp_path)], check=True, capture_output=True)
    for part in SPLITS:
        assert (tmp_path / f"{part}.tsv").read_bytes() == (FOLDER / f"{part}.tsv").read_bytes()


def test_sources_state_the_sizes_of_the_graph() -> None:
    text = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    entities = {entity for head, _, tail in FACTS for entity in (head, tail)}
    assert f"{len(entities):,} entities, {len(FACTS):,} facts" in text
    for relation in {relation for _, relation, _ in FACTS}:
        counts = (sum(r == relation for _, r, _ in WORLD[part]) for part in SPLITS)
        assert f"| `{relation}` | " + " | ".join(f"{count:,}" for count in counts) + " |" in text
