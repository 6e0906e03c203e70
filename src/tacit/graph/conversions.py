"""Conversions of a graph to and from those of other libraries, to DataFrames and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from pathlib import Path

    import networkx as nx
    from torch_geometric.data import Data

    from tacit.graph.formats.frames import Library
    from tacit.graph.graph import Graph


class Conversions:
    """What `Graph` inherits to become, and be made of, a graph of another library."""

    def write(self, path: str | Path) -> None:
        """Writes facts to one `.tsv`, `.txt`, `.nt` or `.ttl` file, or its splits to a folder.

        The file may be packed.
        """
        from tacit.graph.formats.fact_files import write_facts

        write_facts(cast("Graph", self), path)

    def to_frame(self, library: Library = "pandas", *splits: str) -> Any:
        """The facts and values of some splits (default: all): head, relation, tail and split.

        The library is `pandas`, `polars` or `pyarrow`. `tacit.load` reads any DataFrame.
        """
        from tacit.graph.formats.frames import frame_of_graph

        return frame_of_graph(cast("Graph", self), library, *splits)

    @classmethod
    def from_networkx(cls, graph: nx.Graph[Any], relation: str | None = None) -> Graph:
        """Builds a graph of a networkx graph, whose nodes are the entities, in their order.

        The relation of an edge is its attribute `relation`, by default `relation`, `predicate`,
        `label` or `type`, whichever the first edge has, or else its key. An undirected edge is a
        fact both ways; `split` of an edge may say valid or test. The `name` or `label` of a node is
        its readable name; what else it has of numbers, dates and durations are its attributes.
        """
        from tacit.graph.formats.graph_libraries import from_networkx

        return from_networkx(graph, relation)

    def to_networkx(self, *splits: str) -> nx.MultiDiGraph[str]:
        """The facts of some splits (default: all) as a networkx graph of all entities.

        The key of an edge is its relation; it has a `relation` and a `split`, too. A node has its
        numbers and dates, and a `name` where that is not its label.
        """
        from tacit.graph.formats.graph_libraries import to_networkx

        return to_networkx(cast("Graph", self), *splits)

    def to_pyg(self, *splits: str) -> Data:
        """The facts of some splits (default: all) as `Data` of PyTorch Geometric.

        Nodes are entity ids. `edge_type` `i` is relation id `2i`: inverses are left out. Each split
        has a mask over the edges, `train_mask`, `val_mask` and `test_mask`.
        """
        from tacit.graph.formats.graph_libraries import to_pyg

        return to_pyg(cast("Graph", self), *splits)

    @classmethod
    def from_pykeen(
        cls, train: Any, valid: Any = None, test: Any = None, name: str | None = None
    ) -> Graph:
        """Builds a graph of triples factories of PyKEEN, or of a data set in place of `train`.

        Inverse triples, which PyKEEN makes while it trains, are no facts.
        """
        from tacit.graph.formats.graph_libraries import from_pykeen

        return from_pykeen(train, valid, test, name)
