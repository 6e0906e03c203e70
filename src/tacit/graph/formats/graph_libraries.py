"""Graphs of other libraries in and out: networkx, PyTorch Geometric and PyKEEN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.errors import DataError, SettingsError
from tacit.graph.attributes import Attribute
from tacit.graph.builder import Builder, with_unseen_noted
from tacit.graph.formats.label_tables import value_text
from tacit.graph.graph import SPLITS, Graph
from tacit.graph.quantities import Kind, Quantity

if TYPE_CHECKING:
    import networkx as nx
    from torch_geometric.data import Data

PYKEEN = "pykeen:"  # stands before the name of one of its data sets
RELATIONS = ("relation", "predicate", "label", "type")  # attributes of edges that name relations
NAMES = ("name", "label")  # attributes of nodes that are readable names
_SHOWN = 5  # attributes in a note
_NETWORKX = Path("networkx graph")
_FACTORIES = ("training", "validation", "testing")  # of a data set of PyKEEN


def to_networkx(graph: Graph, *splits: str) -> nx.MultiDiGraph[str]:
    """A node per entity, and an edge per fact of some splits (default: all), keyed by relation.

    An edge has its `relation` and `split`, a node its values, as numbers or texts, and its `name`
    where that is not its label.
    """
    try:
        import networkx as nx
    except ImportError:
        raise SettingsError(
            "it takes networkx to make its graphs; install it with: pip install 'tacit-kg[frames]'"
        ) from None
    result: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=graph.name)
    entities = graph.entities
    result.add_nodes_from(entities.labels)
    for label, names in entities.names.items():
        result.nodes[label][NAMES[0]] = names[0]
    for split in splits or SPLITS:
        for head, relation, tail in graph.split(split).tolist():
            label = graph.relations[relation]
            result.add_edge(entities[head], entities[tail], label, relation=label, split=split)
    for number, attribute in enumerate(graph.attributes.listed):
        is_plain = attribute == Attribute(attribute.name) and attribute.name not in NAMES
        key = attribute.name if is_plain else str(attribute)
        for entity, text in graph.attributes.texts(number, *splits):
            value = _as_number(text) if attribute.kind == "number" else text
            node = result.nodes[entities[entity]]
            node[key] = [*np.atleast_1d(node[key]).tolist(), value] if key in node else value
    return result


def _as_number(text: str) -> float:
    try:
        return int(text)
    except ValueError:
        return float(text)


def from_networkx(source: nx.Graph[Any], relation: str | None = None) -> Graph:
    """The graph of a networkx graph; its nodes are the entities, in their order.

    The relation of an edge is its attribute `relation`, by default the first of `RELATIONS` that
    the first edge has, or else its key. An undirected edge is a fact both ways. The attribute
    `split` of an edge may say valid or test. Numbers, dates and durations of nodes are values in
    train.
    """
    if not hasattr(source, "is_multigraph"):
        raise DataError(f"a {type(source).__name__} is no graph of networkx")
    ids = {node: place for place, node in enumerate(source)}
    labels = [_label(node, "node") for node in ids]
    _check_distinct(labels, _NETWORKX)
    builder = Builder()
    _add(builder, labels, *_facts(source, ids, relation))
    _add_values(builder, source, labels)
    graph = with_unseen_noted(builder.graph(str(source.graph.get("name") or "graph")))
    return graph.named(
        {
            label: [name]
            for node, label in zip(ids, labels, strict=True)
            if (name := _name(source.nodes[node])) and name != label
        }
    )


def _facts(
    source: nx.Graph[Any], ids: Mapping[Any, int], relation: str | None
) -> tuple[list[str], dict[str, list[tuple[int, int, int]]]]:
    """The relations of a graph's edges, and its facts of each split."""
    relations: dict[str, int] = {}
    facts: dict[str, list[tuple[int, int, int]]] = {split: [] for split in SPLITS}
    edges = list(_edges(source))
    if relation is None and edges:
        relation = next((name for name in RELATIONS if name in edges[0][3]), None)
    for head, tail, key, attributes in edges:
        text = attributes.get(relation) if relation else key if isinstance(key, str) else None
        if text is None:
            what = f"has no '{relation}'" if relation else "has no relation"
            raise DataError(
                f"the edge of {head!r:.40} and {tail!r:.40} {what}; name the attribute of edges "
                "that has it, `relation='kind'`, or give it one: networkx.set_edge_attributes"
                "(graph, 'knows', 'relation')",
                _NETWORKX,
            )
        number = relations.setdefault(_label(text, "relation"), len(relations))
        split = attributes.get("split")
        rows = facts[split if split in SPLITS else "train"]
        rows.append((ids[head], number, ids[tail]))
        if not source.is_directed() and head != tail:
            rows.append((ids[tail], number, ids[head]))
    return list(relations), facts


def _add_values(builder: Builder, source: nx.Graph[Any], labels: Sequence[str]) -> None:
    """Adds the numbers, dates and durations of nodes; a note says what else they have."""
    values = []
    ignored = dict[str, None]()
    for node, label in zip(source, labels, strict=True):
        for key, cell in source.nodes[node].items():
            declared = Attribute.declared(str(key))
            name, unit = (declared.name, declared.unit) if declared else (str(key), "")
            for value in cell if isinstance(cell, list | tuple) else [cell]:
                quantity = _quantity(value, declared.kind if declared else None)
                if quantity is not None:
                    unit_of_kind = unit if quantity.kind == "number" else ""
                    values.append((label, name, replace(quantity, unit=unit_of_kind)))
                elif key not in NAMES:
                    ignored[str(key)] = None
    builder.add_quantities(SPLITS[0], values)
    if ignored:
        names = ", ".join([*ignored][:_SHOWN]) + ", ..." * (len(ignored) > _SHOWN)
        builder.notes.append(f"nodes: attributes that are no numbers or dates ignored: {names}")


def _quantity(value: Any, kind: Kind | None) -> Quantity | None:
    """A value of Python as a quantity; a text is one if the kind is declared."""
    if isinstance(value, str):
        return Quantity.parse(value, kind) if kind else None
    text = value_text(value)
    is_whole = isinstance(text, Integral) and not isinstance(text, bool)
    return Quantity.parse(str(text), kind) if is_whole or isinstance(text, str) else None


def _edges(source: nx.Graph[Any]) -> Iterable[tuple[Any, Any, Any, Mapping[str, Any]]]:
    """The edges of a graph: both ends, the key where there is one, and the attributes."""
    if source.is_multigraph():
        keyed: Any = source.edges
        yield from keyed(keys=True, data=True)
    else:
        for head, tail, attributes in source.edges(data=True):
            yield head, tail, None, attributes


def _name(attributes: Mapping[str, Any]) -> str:
    """The readable name that the attributes of a node have; empty where none."""
    texts = (attributes.get(name) for name in NAMES)
    return next((text.strip() for text in texts if isinstance(text, str) and text.strip()), "")


def _label(value: Any, what: str) -> str:
    """The label of a node or relation, a text or whole number."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    label = str(value).strip(" ") if isinstance(value, str) or is_whole else ""
    if not label:
        advice = ": networkx.relabel_nodes(graph, str) makes text of any" if what == "node" else ""
        raise DataError(
            f"the {what} {value!r:.40} is no label; labels are text or whole numbers{advice}",
            _NETWORKX,
        )
    return label


def _check_distinct(labels: Sequence[str], source: str | Path) -> None:
    """Refuses two nodes of one label, which would become one entity."""
    if len(set(labels)) < len(labels):
        ((label, count),) = Counter(labels).most_common(1)
        raise DataError(f"{count} nodes have the label '{label}'; relabel all but one", source)


def _add(
    builder: Builder, labels: list[str], relations: list[str], facts: Mapping[str, Any]
) -> None:
    """Adds facts of several splits, as positions in lists of labels, to a builder."""
    rows = {split: np.array(facts[split], dtype=np.int32).reshape(-1, 3) for split in facts}
    builder.add_coded(labels, relations, rows)


def to_pyg(graph: Graph, *splits: str) -> Data:
    """The facts of some splits (default: all) as `edge_index` and `edge_type`.

    Nodes are entity ids. An edge type is the place of a relation among those that are no inverses:
    type `i` is relation id `2i`. With several splits each has a mask over the edges.
    """
    try:
        import torch
        from torch_geometric.data import Data
    except ImportError:
        raise SettingsError(
            "it takes PyTorch Geometric to make its data; install it with: "
            "pip install 'tacit-kg[pyg]'"
        ) from None
    chosen = tuple(dict.fromkeys(splits)) or SPLITS
    facts = torch.from_numpy(graph.facts(*chosen).astype(np.int64))
    counts = torch.tensor([len(graph.split(split)) for split in chosen])
    split_of = torch.repeat_interleave(torch.arange(len(chosen)), counts)
    names = {"valid": "val_mask"}
    return Data(
        edge_index=facts[:, [0, 2]].T.contiguous(),
        edge_type=facts[:, 1] // 2,
        num_nodes=graph.num_entities,
        **{names.get(split, f"{split}_mask"): split_of == i for i, split in enumerate(chosen)},
    )


def from_pykeen(source: Any, valid: Any = None, test: Any = None, name: str | None = None) -> Graph:
    """The graph of PyKEEN's triples factories, or of a data set of its with all three.

    Inverse triples, which PyKEEN makes while it trains, are left to Tacit. Ids of entities are
    those of the first factory; one without labels has its ids as labels.
    """
    factories = [source, valid, test]
    if hasattr(source, _FACTORIES[0]):
        factories = [getattr(source, part, None) for part in _FACTORIES]
        name = name or type(source).__name__.lower()
    builder = Builder()
    for split, factory in zip(SPLITS, factories, strict=True):
        if factory is None:
            continue
        if not hasattr(factory, "mapped_triples"):
            kind = type(factory).__name__
            raise DataError(f"a {kind} is no triples factory of PyKEEN, nor a data set of its")
        # of relation ids with inverse triples, only these occur in the triples
        relations = _labels(factory, "relation", factory.real_num_relations)
        entities = _labels(factory, "entity", factory.num_entities)
        _check_distinct(entities, f"{split} factory")
        _add(builder, entities, relations, {split: factory.mapped_triples.cpu().numpy()})
    return with_unseen_noted(builder.graph(name or "graph"))


def _labels(factory: Any, kind: str, count: int) -> list[str]:
    """The labels of a factory's entities or relations, in the order of ids."""
    labels: Mapping[int, str] = getattr(factory, f"{kind}_id_to_label", {})
    return [str(labels.get(number, number)).strip(" ") for number in range(count)]


def load_pykeen(name: str) -> Graph:
    """The data set of PyKEEN by that name; those that are not in the package are fetched by it."""
    try:
        from pykeen.datasets import dataset_resolver, get_dataset
    except ImportError:
        raise DataError(
            "is a data set of PyKEEN; install it with: pip install 'tacit-kg[pykeen]'",
            f"{PYKEEN}{name}",
        ) from None
    known: Sequence[str] = sorted(dataset_resolver.lookup_dict)
    if dataset_resolver.normalize(name) not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean '{PYKEEN}{near[0]}'?" if near else f"there is {', '.join(known)}"
        raise DataError(f"PyKEEN has no data set '{name}'; {hint}", f"{PYKEEN}{name}")
    try:
        data = get_dataset(dataset=name)
        return from_pykeen(data, name=name)
    except DataError:
        raise
    except Exception as error:  # of the network, of archives and of files: it may be any
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise DataError(f"PyKEEN cannot load it ({reason})", f"{PYKEEN}{name}") from None
