"""Tacit answers logical questions over knowledge graphs that are missing facts, and says why.

`load` reads a graph, `train` learns a link predictor for it, `open` opens what was trained, as a
`Run` to ask, adapt and evaluate; `split` holds facts of a graph out, and `sample` draws queries
from it:

>>> import tacit
>>> tacit.load("world")
Graph(world: 2,310 entities, 10 relations, 4,393 train, 547 valid, 547 test facts, 4,834 values)
>>> run = tacit.open("world")  # doctest: +SKIP
>>> run.explain("?c : borders(France, ?c) & !speaks(?c, German)", top=5)  # doctest: +SKIP

Questions are text, SPARQL, or formulas of `Atom`, `And`, `Or`, `Not`, `Exists` over `Entity` and
`Variable`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

if TYPE_CHECKING:
    from tacit.engine.answers.answers import Answers as Answers
    from tacit.engine.engine import Engine as Engine
    from tacit.errors import TacitError as TacitError
    from tacit.evaluate.evaluation import hardness as hardness
    from tacit.graph.graph import Graph as Graph
    from tacit.query.formula import And as And
    from tacit.query.formula import Atom as Atom
    from tacit.query.formula import Entity as Entity
    from tacit.query.formula import Exists as Exists
    from tacit.query.formula import Not as Not
    from tacit.query.formula import Or as Or
    from tacit.query.formula import Query as Query
    from tacit.query.formula import Variable as Variable
    from tacit.query.sampling.query_folder import sample as sample
    from tacit.query.text import parse as parse
    from tacit.run.compare import compare as compare
    from tacit.run.run import Run as Run
    from tacit.run.run import open as open
    from tacit.run.training import import_model as import_model
    from tacit.run.training import train as train
    from tacit.run.training import train_encoder as train_encoder
    from tacit.server import serve as serve
    from tacit.sources import fetch as fetch
    from tacit.sources import load as load
    from tacit.sources import split as split

# Where public names live; the modules load when a name is first used, so that `import tacit` stays
# instant.
_HOMES = {
    "run.compare": ("compare",),
    "engine.answers.answers": ("Answers",),
    "engine.engine": ("Engine",),
    "errors": ("TacitError",),
    "evaluate.evaluation": ("hardness",),
    "graph.graph": ("Graph",),
    "run.training": ("import_model", "train", "train_encoder"),
    "query.formula": ("And", "Atom", "Entity", "Exists", "Not", "Or", "Query", "Variable"),
    "query.sampling.query_folder": ("sample",),
    "query.text": ("parse",),
    "run.run": ("Run", "open"),
    "server": ("serve",),
    "sources": ("fetch", "load", "split"),
}
__all__ = ["__version__", *(name for names in _HOMES.values() for name in names)]


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"tacit.{home}"), name)
    raise AttributeError(f"module 'tacit' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
