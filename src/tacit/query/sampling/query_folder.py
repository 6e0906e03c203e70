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
from numpy.typing import NDArray

from tacit.disk import from_json
from tacit.errors import DataError, SettingsError
from tacit.fitting.progress import Progress, counting
from tacit.graph.builder import counted, fact_keys
from tacit.graph.formats.betae import is_betae, read_betae, read_vocabulary, write_betae
from tacit.graph.formats.files import atomic_file
from tacit.graph.graph import SPLITS, Graph, Triples
from tacit.graph.labels.vocabulary import Vocabulary
from tacit.graph.stored import fingerprint
from tacit.query.plans.sets import AnswerSets, Ids
from tacit.query.sampling import sampling
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

    entities: NDArray[np.int64]
    relations: NDArray[np.int64]


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
    stamp = graph.label_stamp()
    carried = {
        name: replace(_translated(each, translation, folder), stamp=stamp)
        for name, each in sets.items()
    }
    return {
        name: with_answers(queries, graph, "train")
        if split == "train" and not len(queries.hard.ids)
        else queries
        for name, queries in carried.items()
    }


def _translation(graph: Graph, folder: Path, split: str) -> Translation:
    """Maps the ids of a folder to those of a graph."""
    if all((folder / name).is_file() for name in MAPS):
        has_facts = all((folder / f"{split}.txt").is_file() for split in SPLITS)
        source_graph = read_betae(folder, folder.name) if has_facts else None
        entities = (
            source_graph.entities if source_graph else read_vocabulary(folder / MAPS[0], "entity")
        )
        relations = (
            source_graph.relations
            if source_graph
            else read_vocabulary(folder / MAPS[1], "relation")
        )
        translation = Translation(_ids(entities, graph.entities), _ids(relations, graph.relations))
        if source_graph:
            _check_facts(graph, source_graph, translation, folder)
        return translation
    if _recorded(folder, split) != fingerprint(graph)._asdict():
        raise DataError(
            f"has no {' and '.join(MAPS)}, and does not say that its ids are those of "
            f"{graph.name}; add the maps, or sample queries of this graph",
            folder,
        )
    return Translation(np.arange(graph.num_entities), np.arange(graph.num_relations))


def _ids(source: Vocabulary, target: Vocabulary) -> NDArray[np.int64]:
    if source == target:
        return np.arange(len(target))
    ids = {name: i for i, name in enumerate(target)}
    return np.array([ids.get(name, -1) for name in source], dtype=np.int64)


def _check_facts(graph: Graph, source_graph: Graph, translation: Translation, folder: Path) -> None:
    """Raises a `DataError` if a folder's facts differ from those of the graph.

    A run could have trained on the facts that the queries ask for.

    A graph may lack the facts to validate and test with; those that it has must be the folder's.
    """
    for split in SPLITS:
        mine = graph.split(split)
        theirs = _translated_facts(source_graph.split(split), translation)
        known = theirs[(theirs >= 0).all(axis=1)]
        present, named = fact_keys((mine, known), graph.num_entities, graph.num_relations)
        others = np.setxor1d(present, named)
        if (len(mine) or split == SPLITS[0]) and (len(others) or len(known) < len(theirs)):
            different = counted(len(others) + len(theirs) - len(known), "fact")
            raise DataError(
                f"its queries were made of other facts than {graph.name} has: {different} of "
                f"{split} in one and not in the other; sample queries of this graph, or open the "
                "run that was trained on theirs",
                folder,
            )


def _translated_facts(facts: Triples, translation: Translation) -> Triples:
    """Translates facts to the ids of the graph, forward where a relation became an inverse."""
    heads = translation.entities[facts[:, 0]]
    tails = translation.entities[facts[:, 2]]
    relations = translation.relations[facts[:, 1]]
    turned = relations % 2 == 1
    columns = (np.where(turned, tails, heads), relations - turned, np.where(turned, heads, tails))
    columns[1][relations < 0] = -1
    read: Triples = np.stack(columns, axis=1)
    return read


def _translated(queries: QuerySet, translation: Translation, folder: Path) -> QuerySet:
    """Translates queries to the ids of the graph."""

    def carried(ids: Ids, kind: str) -> Ids:
        table = translation.entities if kind == "entity" else translation.relations
        if int(ids.max(initial=-1)) >= len(table):
            last = len(table) - 1
            raise DataError(
                f"{queries.name} queries name {kind} {ids.max()}, but its labels end at {last}",
                folder,
            )
        translated: Ids = table[ids].astype(np.int32)
        if (translated < 0).any():
            missing = counted(len(np.unique(ids[translated < 0])), f"{kind} label")
            problem = (
                f"{queries.name} queries name {missing} that the graph does not have; "
                "they are of another graph"
            )
            raise DataError(problem, folder)
        return translated

    def answers(sets: AnswerSets) -> AnswerSets:
        ids = carried(sets.ids, "entity")
        width = int(ids.max(initial=0)) + 1
        return AnswerSets.of_keys(np.sort(sets.rows * width + ids), len(sets), width)

    entities = carried(queries.entities, "entity")
    relations = carried(queries.relations, "relation")
    return replace(
        queries,
        entities=entities,
        relations=relations,
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
    for name, chosen in queries.items():
        if chosen.stamp is not None and chosen.stamp != graph.label_stamp(*chosen.stamp[:2]):
            raise DataError(
                f"the {name} queries are of another graph, whose ids mean other things in "
                f"{graph.name}; sample queries of this graph, or give the folder that theirs are in"
            )
        entities = np.concatenate(
            [part.ravel() for part in (chosen.entities, chosen.easy.ids, chosen.hard.ids)]
        )
        for kind, ids, size in (
            ("entity", entities, graph.num_entities),
            ("relation", chosen.relations, graph.num_relations),
        ):
            wrong = ids[(ids < 0) | (ids >= size)]
            if wrong.size:
                raise DataError(
                    f"the {name} queries speak of {kind} {wrong[0]:,}, but {graph.name} has 0 to "
                    f"{size - 1:,}; give queries of the graph the run was made for"
                )


def _recorded(folder: Path, split: str) -> Any:
    """The recorded fingerprint of the graph that a folder was sampled from, or None."""
    path = folder / f"{split}-sample.json"
    try:
        return (
            from_json(path.read_text(encoding="utf-8")).get("fingerprint")
            if path.is_file()
            else None
        )
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
    whose names stand for any. `force` replaces queries of the split in the folder. `progress` hears
    an `Event` of each shape as its queries are drawn, or True shows it. The queries of `2i` are
    `["2i"].queries`.

    Settings are those of `SampleSettings`. Each shape gets `count` queries, of at most
    `max_answers` hard answers, about the facts of a `split`, drawn by a `seed`; it is given up when
    more than the share `waste` of the tries is in vain. With `missing`, 2 or "2+", the hard answers
    are those that exactly, or at least, so many links must be predicted for; the others count as
    easy. Options of `tacit.load` say how the graph is read.
    """
    reading = take_reading(settings)
    chosen = SampleSettings.of(settings)
    split = chosen.split
    if out is not None and has_queries(out, split) and not force:
        raise DataError(
            f"holds {split} queries; choose another folder, or replace them by `force=True`", out
        )
    links = None if chosen.missing is None else missing_range(chosen.missing, split)
    requested = shapes_of(shapes, templates, links)
    for shape in requested.values() if out is not None else ():
        shape.encoded()  # what no file can hold is refused before it is drawn
    loaded = load(graph, **reading)
    options = chosen.to_dict()
    samples = {}
    with counting(progress) as counts:
        for name, shape in requested.items():
            drawn = sampling.sample(loaded, shape, progress=counts(name, chosen.count), **options)
            encoding: Encoding = "dm" if name != shape.name else "dnf"
            queries = replace(drawn.queries, encoding=encoding, stamp=loaded.label_stamp())
            samples[name] = replace(drawn, queries=queries)
    if not any(len(drawn.queries) for drawn in samples.values()):
        raise SettingsError(f"no query found; {'; '.join(map(str, samples.values()))}")
    if out is not None:
        report = {
            name: value for name, value in options.items() if name != "missing" or value is not None
        }
        _write(loaded, Path(out), split, samples, report)
    return samples


def shapes_of(
    names: str | Iterable[str] | None = None,
    templates: str | Iterable[str] = (),
    links: range | None = None,
) -> dict[str, Shape]:
    """The shapes of names and templates, by the names that a folder gives them.

    Where nothing is said they are all 14, or those that can miss so many links.
    """
    templates = [templates] if isinstance(templates, str) else list(templates)
    chosen = parse_shapes(names or "all") if names or not templates else ()
    shapes = {name: SHAPES[name.removesuffix("-DM")] for name in chosen}
    if links is not None and not names:
        shapes = {name: shape for name, shape in shapes.items() if can_miss(shape, links)}
    if templates:
        from tacit.query.text import parse

        for text in templates:
            shape = Shape.of(text, parse(text))
            name = text if shape.structure is None else label(shape.structure)
            shapes.setdefault(name, SHAPES.get(name, replace(shape, name=name)))
    return shapes


def _write(
    graph: Graph,
    folder: Path,
    split: str,
    samples: Mapping[str, Sample],
    settings: Mapping[str, Any],
) -> None:
    """Writes queries as a BetaE folder, with their graph and a report of the sampling."""
    from tacit import __version__

    if not is_betae(folder):
        write_betae(graph, folder)
    elif fingerprint(read_betae(folder, folder.name)) != fingerprint(graph):
        raise DataError("holds another graph; choose another folder", folder)
    write_queries(
        folder, split, [drawn.queries for drawn in samples.values() if len(drawn.queries)]
    )
    shapes = {
        name: {
            "queries": len(drawn.queries),
            "tries": drawn.tries,
            "turned_down": drawn.rejected,
        }
        for name, drawn in samples.items()
    }
    about = {
        "tacit": __version__,
        "graph": graph.name,
        "fingerprint": fingerprint(graph)._asdict(),
        "split": split,
    }
    with atomic_file(folder / f"{split}-sample.json") as file:
        file.write(json.dumps({**about, **settings, "shapes": shapes}, indent=2).encode() + b"\n")
