"""Query folders: queries beside the graph they were sampled from.

The pickles of such a folder speak of ids, which mean nothing without the labels beside them:
queries are carried over to the ids of a graph by label, and refused where that cannot be done, or
where the facts are others.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tacit.disk import from_json
from tacit.errors import DataError, SettingsError
from tacit.fitting.progress import Progress, counting
from tacit.graph.builder import as_forward, counted, fact_keys
from tacit.graph.fact_index import Ids, Ints
from tacit.graph.formats.betae import is_betae, read_betae, read_vocabulary, write_betae
from tacit.graph.formats.files import atomic_file
from tacit.graph.graph import SPLITS, Graph, without_attributes
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.stored import fingerprint
from tacit.query.plans.sets import AnswerSets
from tacit.query.sampling import sampling
from tacit.query.sampling.comparison_shapes import (
    check_unwritten,
    comparison_shapes,
    take_comparison_shapes,
)
from tacit.query.sampling.queries import (
    QuerySet,
    has_queries,
    read_queries,
    with_answers,
    write_queries,
)
from tacit.query.sampling.sampling import Sample, can_miss, missing_range
from tacit.query.sampling.settings import SampleSettings
from tacit.query.sampling.shapes import SHAPES, Encoding, Shape, label, parse_shapes
from tacit.sources import NameOrPath, load, take_reading

if TYPE_CHECKING:
    from tacit.graph.datasets import Facts

MAPS = ("id2ent.pkl", "id2rel.pkl")


class Translation(NamedTuple):
    """Maps ids of a folder to ids of a graph; -1 where the graph lacks the label."""

    entities: Ints
    relations: Ints


def queries_for(
    graph: Graph,
    folder: str | Path,
    split: str,
    shapes: str | Iterable[str] | None = None,
    *,
    absent_ok: bool = False,
) -> dict[str, QuerySet]:
    """Reads the queries of a folder in the ids of a graph, optionally of some shapes.

    They are carried over by label where the folder has maps from ids to labels; where it has facts,
    those must be the graph's. A folder without maps is taken where it says that it was made of this
    very graph. Train queries without answers get theirs from the graph. De Morgan's forms of
    unions, the same questions once more, come only when asked for by name.
    """
    folder = Path(folder)
    sets = read_queries(folder, split, shapes, absent_ok=absent_ok)
    if shapes is None:
        plain = [name for name in sets if not name.endswith("-DM")]
        sets = {name: sets[name] for name in dict.fromkeys([*SHAPES, *plain]) if name in plain}
    translation = _translation(graph, folder, split)
    for name, queries in sets.items():
        queries = _translate(queries, translation, folder)
        if split == "train" and not len(queries.hard.ids):
            queries = with_answers(queries, graph, "train")
        sets[name] = replace(queries, stamp=graph.label_stamp())
    return sets


def _translation(graph: Graph, folder: Path, split: str) -> Translation:
    """Maps the ids of a folder to those of a graph."""
    if all((folder / name).is_file() for name in MAPS):
        if not all((folder / f"{split}.txt").is_file() for split in SPLITS):
            entities = read_vocabulary(folder / MAPS[0], "entity")
            relations = read_vocabulary(folder / MAPS[1], "relation")
            return Translation(_ids(entities, graph.entities), _ids(relations, graph.relations))
        source = read_betae(folder, folder.name)
        translation = Translation(
            _ids(source.entities, graph.entities), _ids(source.relations, graph.relations)
        )
        _check_facts(graph, source, translation, folder)
        return translation
    if _recorded(folder, split) != fingerprint(without_attributes(graph))._asdict():
        raise DataError(
            f"has no {' and '.join(MAPS)}, and does not say that its ids are those of "
            f"{graph.name}; add the maps, or sample queries of this graph",
            folder,
        )
    return Translation(np.arange(graph.num_entities), np.arange(graph.num_relations))


def _ids(source: Vocabulary, target: Vocabulary) -> Ints:
    if source == target:
        return np.arange(len(target))
    ids = {name: i for i, name in enumerate(target)}
    return np.array([ids.get(name, -1) for name in source], dtype=np.int64)


def _check_facts(graph: Graph, source: Graph, translation: Translation, folder: Path) -> None:
    """Raises a `DataError` if a folder's facts differ from those of the graph.

    A run could have trained on the facts that the queries ask for. The valid and test facts of the
    graph may be missing, but if it has some, they must be the folder's.
    """
    for split in SPLITS:
        facts = graph.split(split)
        tables = translation.entities, translation.relations, translation.entities
        ids = (table[old] for table, old in zip(tables, source.split(split).T, strict=True))
        # a forward relation there may be an inverse here
        theirs = as_forward(np.stack(list(ids), axis=1))
        named = theirs[(theirs >= 0).all(axis=1)]
        ours, others = fact_keys((facts, named), graph.num_entities, graph.num_relations)
        number = len(np.setxor1d(ours, others)) + len(theirs) - len(named)
        if number and (len(facts) or split == SPLITS[0]):
            different = counted(number, "fact")
            raise DataError(
                f"its queries were made of other facts than {graph.name} has: {different} of "
                f"{split} in one and not in the other; sample queries of this graph, or open the "
                "run that was trained on theirs",
                folder,
            )


def _translate(queries: QuerySet, translation: Translation, folder: Path) -> QuerySet:
    """Queries in the ids of the graph."""

    def translate(ids: Ids, kind: str) -> Ids:
        table = translation.entities if kind == "entity" else translation.relations
        if int(ids.max(initial=-1)) >= len(table):
            last = len(table) - 1
            raise DataError(
                f"{queries.name} queries name {kind} {ids.max()}, but its labels end at {last}",
                folder,
            )
        new_ids: Ids = table[ids].astype(np.int32)
        if (new_ids < 0).any():
            missing = counted(len(np.unique(ids[new_ids < 0])), f"{kind} label")
            raise DataError(
                f"{queries.name} queries name {missing} that the graph does not have; "
                "they are of another graph",
                folder,
            )
        return new_ids

    def answers(sets: AnswerSets) -> AnswerSets:
        ids = translate(sets.ids, "entity")
        width = int(ids.max(initial=0)) + 1
        return AnswerSets.of_keys(np.sort(sets.rows * width + ids), len(sets), width)

    return replace(
        queries,
        entities=translate(queries.entities, "entity"),
        relations=translate(queries.relations, "relation"),
        easy=answers(queries.easy),
        hard=answers(queries.hard),
    )


def check_ids(queries: Mapping[str, QuerySet], graph: Graph) -> None:
    """Raises a `DataError` for queries of another graph, or with ids it does not have.

    A graph that has more labels behind theirs is not another.
    """
    if not isinstance(queries, Mapping) or not all(
        isinstance(each, QuerySet) for each in queries.values()
    ):
        raise SettingsError(
            "queries are neither a query folder nor query sets by shape; give one of them",
            "queries",
        )
    for name, query_set in queries.items():
        stamp = query_set.stamp
        if stamp is not None and stamp != graph.label_stamp(*stamp[:2]):
            raise DataError(
                f"the {name} queries are of another graph, whose ids mean other things in "
                f"{graph.name}; sample queries of this graph, or give the folder that theirs are in"
            )
        for kind, ids, size in (
            ("entity", query_set.entities, graph.num_entities),
            ("entity", query_set.easy.ids, graph.num_entities),
            ("entity", query_set.hard.ids, graph.num_entities),
            ("relation", query_set.relations, graph.num_relations),
        ):
            invalid = ids[(ids < 0) | (ids >= size)]
            if invalid.size:
                raise DataError(
                    f"the {name} queries speak of {kind} {invalid[0]:,}, but {graph.name} has 0 to "
                    f"{size - 1:,}; give queries of the graph the run was made for"
                )


def _recorded(folder: Path, split: str) -> Any:
    """The recorded fingerprint of the graph that a folder was sampled from, or None."""
    try:
        text = (folder / f"{split}-sample.json").read_text(encoding="utf-8")
        return from_json(text).get("fingerprint")
    except (OSError, ValueError, AttributeError):
        return None


def sample(
    graph: Facts | Sequence[Facts],
    out: NameOrPath | None = None,
    *,
    shapes: str | Iterable[str] | None = None,
    templates: str | Iterable[str] = (),
    force: bool = False,
    progress: Progress | bool = False,
    **settings: Any,
) -> dict[str, Sample]:
    """Samples queries with easy and hard answers; `out` also writes them as a BetaE folder.

    `shapes` are names as in `2i,3i,2in`, or all, positive, negative; `templates` are questions
    whose names stand for any. `2ia`, `pa` and `ina` are hops with a comparison, one shape for each
    attribute above and below its median, which share `count`. `force` replaces queries of the split
    in the folder. `progress` hears an `Event` of each shape as its queries are drawn, or True shows
    it. The queries of `2i` are `["2i"].queries`.

    Settings are those of `SampleSettings`. Each shape gets `count` queries, of at most
    `max_answers` hard answers, about the facts of a `split`, drawn by a `seed`; it is given up when
    more than the share `waste` of the tries is in vain. With `missing`, 2 or "2+", the hard answers
    are those that exactly, or at least, so many links must be predicted for; the others count as
    easy. Options of `tacit.load` say how the graph is read.
    """
    reading = take_reading(settings)
    options = SampleSettings.of(settings)
    split = options.split
    if out is not None and has_queries(out, split) and not force:
        raise DataError(
            f"holds {split} queries; choose another folder, or replace them by `force=True`", out
        )
    links = None if options.missing is None else missing_range(options.missing, split)
    compared, plain = take_comparison_shapes(shapes)
    if compared:
        check_unwritten(compared[0], {"out": out, "missing": links})
    requested = shapes_of(plain, templates, links) if plain or templates or not compared else {}
    if out is not None:
        for shape in requested.values():
            shape.encoded()  # what no file can hold is refused before it is drawn
    loaded = load(graph, **reading)
    values = options.to_dict()
    by_comparison = comparison_shapes(loaded, compared)
    few = max(1, options.count * len(compared) // max(1, len(by_comparison)))
    requested |= by_comparison
    samples = {}
    with counting(progress) as counts:
        for name, shape in requested.items():
            count = few if name in by_comparison else options.count
            own = {**values, "count": count}
            result = sampling.sample(loaded, shape, progress=counts(name, count), **own)
            encoding: Encoding = "dm" if name != shape.name else "dnf"
            queries = replace(result.queries, encoding=encoding, stamp=loaded.label_stamp())
            samples[name] = replace(result, queries=queries)
    if not any(len(result.queries) for result in samples.values()):
        raise SettingsError(f"no query found; {'; '.join(map(str, samples.values()))}")
    if out is not None:
        if links is None:
            del values["missing"]
        _write(loaded, Path(out), samples, values)
    return samples


def shapes_of(
    names: str | Iterable[str] | None = None,
    templates: str | Iterable[str] = (),
    links: range | None = None,
) -> dict[str, Shape]:
    """The shapes of names and templates, by the names that a folder gives them.

    The default is all 14, or all of these whose answers can miss so many links.
    """
    from tacit.query.text import parse

    templates = [templates] if isinstance(templates, str) else list(templates)
    parsed = parse_shapes(names or "all") if names or not templates else ()
    shapes = {name: SHAPES[name.removesuffix("-DM")] for name in parsed}
    if links is not None and not names:
        shapes = {name: shape for name, shape in shapes.items() if can_miss(shape, links)}
    for text in templates:
        shape = Shape.of(text, parse(text))
        name = text if shape.structure is None else label(shape.structure)
        shapes.setdefault(name, SHAPES.get(name, replace(shape, name=name)))
    return shapes


def _write(
    graph: Graph, folder: Path, samples: Mapping[str, Sample], settings: Mapping[str, Any]
) -> None:
    """Writes queries as a BetaE folder, with their graph and a report of the sampling."""
    from tacit import __version__

    if not is_betae(folder):
        write_betae(graph, folder)
    elif fingerprint(read_betae(folder, folder.name)) != fingerprint(without_attributes(graph)):
        raise DataError("holds another graph; choose another folder", folder)
    split = settings["split"]
    write_queries(folder, split, [each.queries for each in samples.values() if len(each.queries)])
    report = {
        "tacit": __version__,
        "graph": graph.name,
        "fingerprint": fingerprint(without_attributes(graph))._asdict(),
        **settings,
        "shapes": {
            name: {
                "queries": len(each.queries),
                "tries": each.tries,
                "turned_down": each.rejected,
            }
            for name, each in samples.items()
        },
    }
    with atomic_file(folder / f"{split}-sample.json") as file:
        file.write(json.dumps(report, indent=2).encode() + b"\n")
