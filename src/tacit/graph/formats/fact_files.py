"""Writes the facts of a graph, with values, statements and names, as tables or RDF."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import count
from pathlib import Path

from tacit.errors import DataError
from tacit.graph.formats.columns import header_order, is_half_a_header
from tacit.graph.formats.delimited import COLUMNS, check_writable
from tacit.graph.formats.files import BOM, PACKINGS, atomic_file, atomic_folder, extension
from tacit.graph.formats.label_tables import NAMES, NAMING, PREFIXES
from tacit.graph.formats.writing import RDF, write_lines
from tacit.graph.graph import SPLITS, Graph, without_attributes
from tacit.graph.labels.literal_values import literal
from tacit.graph.labels.prefixes import SCHEME, Prefixes, n_triples, source_term
from tacit.graph.qualifiers import QUALIFIERS, SILENT, Statement
from tacit.graph.quantities import Quantity

Fact = tuple[int, int, int]
_literal = lru_cache(1 << 14)(literal)  # dates are few beside the statements
_FORMATS = (".tsv", ".txt", *RDF)
_REIFIES = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_PROPERTIES = {  # of a reifier
    "source": "<http://purl.org/dc/terms/source>",
    "valid_from": "<http://schema.org/startDate>",
    "valid_until": "<http://schema.org/endDate>",
    "confidence": f"<{SCHEME}confidence>",
}


def write_facts(graph: Graph, path: str | Path) -> None:
    """Writes the facts of a graph to one file, or to a folder with a table per split.

    A path that ends in `.tsv`, `.txt`, `.nt` or `.ttl` (or in a packing after these) is one file of
    all splits; one without extension is a folder with `train.tsv`, `valid.tsv` and `test.tsv`.
    """
    path = Path(path)
    if path.suffix and not path.is_dir():
        kind = extension(path)
        if kind not in _FORMATS:
            packings = ", ".join(PACKINGS)
            raise DataError(
                f"must end in .tsv, .txt, .nt or .ttl, packed or not ({packings}), or name a "
                "folder by no extension",
                path,
            )
        if kind in RDF:
            write_lines(path, _rdf_lines(graph, kind == ".ttl"))
            return
        with atomic_file(path) as file:
            file.write(_table(graph, *SPLITS))
        return
    with atomic_folder(path, NAMING) as folder:
        write_naming(graph, folder)
        for split in SPLITS:
            (folder / f"{split}.tsv").write_bytes(_table(graph, split))


def _table(graph: Graph, *splits: str) -> bytes:
    """A table of facts and values, from which the same are read.

    An attribute is named with its kind or unit, so that it is read as one. A fact about which there
    are several statements has as many lines.
    """
    check_writable((*graph.entities, *graph.relations, *map(str, graph.attributes.listed)))
    check_writable(graph.qualifiers.sources)
    facts = graph.facts(*splits)
    rows = graph.qualifiers.about(facts).rows
    qualified = [name for name in QUALIFIERS if (rows[name] != SILENT[name]).any()]
    cells = defaultdict[Fact, list[str]](lambda: ["\t" * len(qualified)])
    for fact, statements in _statements(graph, splits).items():
        texts = [[_text(getattr(each, name)) for name in qualified] for each in statements]
        cells[fact] = ["".join(f"\t{text}" for text in each) for each in texts]
    entities = graph.entities.labels
    relations = graph.relations.labels
    lines = [
        f"{entities[h]}\t{relations[r]}\t{entities[t]}{more}\n"
        for h, r, t in facts.tolist()
        for more in cells[h, r, t]
    ]
    for number, attribute in enumerate(graph.attributes.listed):
        values = graph.attributes.texts(number, *splits)
        rest = "\t" * len(qualified) + "\n"
        lines += [f"{entities[id_]}\t{attribute}\t{text}{rest}" for id_, text in values]
    first = lines[0][:-1].split("\t") if lines else []
    # a first fact that looks like a header would be skipped
    if qualified or (first and (header_order(first) or is_half_a_header(first))):
        lines.insert(0, "\t".join((*COLUMNS, *qualified)) + "\n")
    text = "".join(lines).encode()
    # a reader drops one mark, which must not be that of a label
    return BOM + text if text.startswith(BOM) else text


def _statements(graph: Graph, splits: Sequence[str]) -> dict[Fact, list[Statement]]:
    """The statements about the facts of some splits, by fact."""
    statements = defaultdict[Fact, list[Statement]](list)
    qualifiers = graph.qualifiers.about(graph.facts(*splits))
    for fact, statement in qualifiers.items():
        statements[fact].append(statement)
    return dict(statements)


@lru_cache(1 << 14)
def _text(value: str | Quantity | float | None) -> str:
    """A qualifier as the cell of a table."""
    return "" if value is None else str(value)


def _rdf_lines(graph: Graph, turtle: bool) -> Iterator[str]:
    """Yields a graph in lines of RDF 1.2: statements about facts are properties of reifiers.

    Facts and values of literals are left out, since RDF allows none as subjects.
    """
    term = partial(n_triples, prefixes=graph.prefixes)
    if turtle:
        yield from (f"@prefix {name}: <{iri}> ." for name, iri in graph.prefixes.items())
    entities = [*map(term, graph.entities)]
    relations = [*map(term, graph.relations[0::2])]
    stem = next(s for s in _stems() if not any(each.startswith(s) for each in entities))
    number = 0
    statements = _statements(graph, SPLITS)
    for head, relation, tail in graph.facts().tolist():
        if entities[head][0] == '"':
            continue
        fact = f"{entities[head]} {relations[relation >> 1]} {entities[tail]}"
        said = [
            [*_properties(each, graph.prefixes)]
            for each in statements.get((head, relation, tail), ())
        ]
        if turtle:
            blocks = [f" {{| {' ; '.join(properties)} |}}" for properties in said]
            yield f"{fact}{''.join(blocks)} ."
            continue
        yield f"{fact} ."
        for properties in said:
            number += 1
            yield f"{stem}{number} {_REIFIES} <<( {fact} )>> ."
            yield from (f"{stem}{number} {each} ." for each in properties)
    for row in graph.attributes.rows:
        if entities[row["entity"]][0] != '"':
            predicate = term(graph.attributes.names[row["attribute"]])
            value = literal(graph.attributes.quantity(row))
            yield f"{entities[row['entity']]} {predicate} {value} ."
    for label, names in graph.names.items():
        if (subject := term(label))[0] != '"':
            for name in names:
                yield f"{subject} {_LABEL} {json.dumps(name, ensure_ascii=False)} ."


def _stems() -> Iterator[str]:
    """Beginnings of labels for blank nodes."""
    return (f"_:statement{number or ''}." for number in count())


def _properties(statement: Statement, prefixes: Prefixes) -> Iterator[str]:
    """The properties and values of a reifier."""
    for name, predicate in _PROPERTIES.items():
        value = getattr(statement, name)
        if isinstance(value, str):
            yield f"{predicate} {source_term(value, prefixes)}"
        elif value is not None:
            is_number = isinstance(value, float)
            yield f"{predicate} {_literal(Quantity(value) if is_number else value)}"


def write_naming(graph: Graph, folder: Path) -> None:
    """Writes the prefixes and names of a graph, each to a file if there are any."""
    if graph.prefixes:
        lines = [f"{prefix}:\t{namespace}\n" for prefix, namespace in graph.prefixes.items()]
        (folder / PREFIXES).write_text("".join(lines), encoding="utf-8")
    names: dict[str, Sequence[str]] = {**without_attributes(graph).names}
    for attribute in graph.attributes.listed:
        names[str(attribute)] = graph.attributes.readable.get(attribute.name, ())
    if any(names.values()):
        check_writable(names)
        lines = [f"{label}\t{' '.join(name.split())}\n" for label in names for name in names[label]]
        (folder / NAMES).write_text("".join(lines), encoding="utf-8")
