"""The embedded graph: what anyone can check by eye, and what its split promises."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter, defaultdict
from hashlib import sha256
from pathlib import Path

import pytest

import tacit.graph
from tacit.graph.datasets import load

ROOT = Path(__file__).parents[2]
FOLDER = Path(tacit.graph.__file__).parent / "world"
SPLITS = ("train", "valid", "test")
Fact = tuple[str, ...]


ATTRIBUTES = {"population", "area[km²]", "latitude", "longitude"}


def read(part: str) -> list[Fact]:
    lines = (FOLDER / f"{part}.tsv").read_text(encoding="utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines]


ROWS = {part: read(part) for part in SPLITS}
WORLD = {part: [row for row in ROWS[part] if row[1] not in ATTRIBUTES] for part in SPLITS}
VALUES = {part: [row for row in ROWS[part] if row[1] in ATTRIBUTES] for part in SPLITS}
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
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 350_000


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


def test_the_facts_are_those_that_runs_were_trained_on() -> None:
    """Values stand after the facts, which keep their lines and so the ids of entities."""
    assert all(ROWS[part] == WORLD[part] + VALUES[part] for part in SPLITS)
    text = "".join("\t".join(fact) + "\n" for fact in FACTS)
    assert sha256(text.encode()).hexdigest().startswith("fda3f293ec1c6103")


NUMBER = {row[:2]: float(row[2]) for part in SPLITS for row in VALUES[part]}
COUNTRIES = {h for h, r, _ in FACTS if r == "in_continent"}
CITIES = {h for h, r, _ in FACTS if r == "city_in"}


def test_values_are_of_countries_and_cities_one_of_each_attribute() -> None:
    assert len(NUMBER) == sum(map(len, VALUES.values()))
    owners = {name: {owner for owner, each in NUMBER if each == name} for name in ATTRIBUTES}
    assert owners["area[km²]"] == COUNTRIES
    assert owners["latitude"] == owners["longitude"] == COUNTRIES | CITIES
    # of these capitals GeoNames counts no inhabitants
    assert (COUNTRIES | CITIES) - owners["population"] == {"Plymouth", "Ngerulmud"}
    assert (
        min(number for (_, name), number in NUMBER.items() if name in ("population", "area[km²]"))
        > 0
    )


# From encyclopedias, to within a tenth, of which GeoNames may be some years off.
@pytest.mark.parametrize(
    ("place", "attribute", "number"),
    [
        ("France", "population", 67e6),
        ("Guyana", "population", 780e3),
        ("Vatican", "area[km²]", 0.44),
        ("Monaco", "area[km²]", 2.02),
        ("Brazil", "area[km²]", 8_515_767),
        ("Paris", "latitude", 48.86),
        ("Tokyo", "longitude", 139.69),
        ("Sydney", "latitude", -33.87),
    ],
)
def test_values_that_anyone_knows(place: str, attribute: str, number: float) -> None:
    assert NUMBER[place, attribute] == pytest.approx(number, rel=0.1)


def distance(one: str, other: str) -> float:
    """The kilometres between two places, by the formula of haversines."""
    (a, b), (c, d) = (
        (math.radians(NUMBER[place, name]) for name in ("latitude", "longitude"))
        for place in (one, other)
    )
    half = math.sin((c - a) / 2) ** 2 + math.cos(a) * math.cos(c) * math.sin((d - b) / 2) ** 2
    return 2 * 6371 * math.asin(math.sqrt(half))


def test_a_country_lies_where_its_people_live() -> None:
    """The centres of population that counts of all inhabitants give."""
    centres = {"United States": (37.4, -92.3), "Germany": (51.1, 9.7), "Russia": (55.6, 54.6)}
    for country, (latitude, longitude) in centres.items():
        assert NUMBER[country, "latitude"] == pytest.approx(latitude, abs=2), country
        assert NUMBER[country, "longitude"] == pytest.approx(longitude, abs=4), country
    # between 177 and -180 degrees of longitude, of which the plain mean is on the other side
    assert NUMBER["Fiji", "longitude"] == pytest.approx(178, abs=1)
    far = {h: distance(h, t) for h, r, t in FACTS if r == "city_in" and distance(h, t) > 2500}
    assert {tails(city, "city_in").pop() for city in far} <= {
        "Australia",
        "Canada",
        "China",
        "India",
        "Indonesia",
        "Kiribati",
        "Russia",
        "United States",
    }


def test_a_tenth_of_the_values_of_each_kind_of_place_is_in_test_and_in_valid() -> None:
    part_of = {row[:2]: part for part in SPLITS for row in VALUES[part]}
    for places in (COUNTRIES, CITIES):
        for name in ATTRIBUTES:
            parts = [part for key, part in part_of.items() if key[0] in places and key[1] == name]
            for part in ("valid", "test"):
                assert parts.count(part) == round(0.1 * len(parts))
    for place in COUNTRIES | CITIES:
        assert part_of[place, "latitude"] == part_of[place, "longitude"]


def test_one_small_neighbour_of_brazil_is_held_back() -> None:
    small = {place for place in tails("Brazil", "borders") if NUMBER[place, "population"] < 1e6}
    assert small == {"Suriname", "Guyana", "French Guiana"}
    held = {h for h, name, _ in VALUES["test"] if name == "population"}
    assert small & held == {"Guyana"}
    assert not small & {h for h, name, _ in VALUES["valid"] if name == "population"}


def test_values_of_the_data_set_are_attributes_without_a_note() -> None:
    graph = load("world")
    assert graph.notes == ()
    assert graph.relations.labels[::2] == list(dict.fromkeys(row[1] for row in FACTS))
    assert {str(each).removesuffix("[number]") for each in graph.attributes.listed} == ATTRIBUTES
    for part in SPLITS:
        expected = {(h, name, float(number)) for h, name, number in VALUES[part]}
        found = {
            (graph.entities[entity], str(each).removesuffix("[number]"), value)
            for number, each in enumerate(graph.attributes.listed)
            for entity, value in zip(*graph.attributes.column(number, part), strict=True)
        }
        assert found == expected
    relations = load("world", attributes=False)
    assert len(relations.facts()) == len(FACTS) + len(NUMBER)
    assert relations.entities.labels[: graph.num_entities] == graph.entities.labels


def test_sources_state_the_sizes_of_the_graph() -> None:
    text = (FOLDER / "SOURCES.md").read_text(encoding="utf-8")
    entities = {entity for head, _, tail in FACTS for entity in (head, tail)}
    assert f"{len(entities):,} entities, {len(FACTS):,} facts" in text
    assert f"{len(NUMBER):,} values" in text
    for relation in {relation for _, relation, _ in FACTS} | ATTRIBUTES:
        counts = (sum(r == relation for _, r, _ in ROWS[part]) for part in SPLITS)
        assert f"| `{relation}` | " + " | ".join(f"{count:,}" for count in counts) + " |" in text
