"""Numbers of countries and cities: population, area and coordinates, and how they are split."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import repairs

COORDINATES = ("latitude", "longitude")
AREA_UNIT = "km²"
DECIMALS = 2  # of a coordinate: about a kilometre
HELD_OUT = 0.1  # in each of valid and test
# The first number by which test has just one of the populations of those neighbours of Brazil that
# have fewer than a million people, and valid none; all three of them could not be shown otherwise.
SEED = 3

# a place, an attribute and a number as text
Value = tuple[str, str, str]
# what is held out together: the kind and label of a place, and what is known of it
Unit = tuple[str, str, str]


def centre(places: Iterable[Mapping[str, Any]]) -> tuple[float, float]:
    """The mean of places on the globe, weighted by population, as latitude and longitude."""
    x = y = z = 0.0
    for place in places:
        latitude, longitude = (math.radians(place[name]) for name in COORDINATES)
        weight = place["population"]
        x += weight * math.cos(latitude) * math.cos(longitude)
        y += weight * math.cos(latitude) * math.sin(longitude)
        z += weight * math.sin(latitude)
    return math.degrees(math.atan2(z, math.hypot(x, y))), math.degrees(math.atan2(y, x))


def of_country(
    label: str, code: str, row: Mapping[str, Any], places: Iterable[Mapping[str, Any]]
) -> dict[Unit, list[Value]]:
    """The values of a country; its coordinates are the centre of its places."""
    area = repairs.AREAS.get(code, row["areakm2"])
    return {
        ("country", label, "population"): [(label, "population", str(row["population"]))],
        ("country", label, "area"): [(label, f"area[{AREA_UNIT}]", str(area))],
        ("country", label, "coordinates"): coordinates(label, *centre(places)),
    }


def of_city(
    label: str, population: int, latitude: float, longitude: float
) -> dict[Unit, list[Value]]:
    """The values of a city; a population of 0 is an unknown one."""
    units = {("city", label, "coordinates"): coordinates(label, latitude, longitude)}
    if population:
        units["city", label, "population"] = [(label, "population", str(population))]
    return units


def coordinates(label: str, *degrees: float) -> list[Value]:
    """Latitude and longitude of a place."""
    return [
        (label, name, f"{round(number, DECIMALS):g}")
        for name, number in zip(COORDINATES, degrees, strict=True)
    ]


def split(units: Mapping[Unit, list[Value]]) -> dict[str, list[Value]]:
    """Splits off a tenth for each of test and valid, of what is known of each kind of place.

    The order is that of a hash, so that it is arbitrary and the same everywhere.
    """
    groups = defaultdict(list)
    for kind, label, known in units:
        groups[kind, known].append((kind, label, known))
    parts: dict[str, list[Value]] = {"train": [], "valid": [], "test": []}
    for group in groups.values():
        group.sort(key=lambda unit: hashlib.sha256("\t".join((str(SEED), *unit)).encode()).digest())
        quota = round(HELD_OUT * len(group))
        for place, unit in enumerate(group):
            part = ("test", "valid")[place // quota] if place < 2 * quota else "train"
            parts[part] += units[unit]
    return {name: sorted(rows) for name, rows in parts.items()}
