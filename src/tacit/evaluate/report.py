"""The report of a run on one page: settings, tables and figures, as HTML or Markdown."""

from __future__ import annotations

import base64
import html
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tacit.disk import write_text
from tacit.errors import SettingsError
from tacit.evaluate import figures
from tacit.evaluate.evaluation import check_writable
from tacit.evaluate.results import (
    TITLES,
    cell,
    columns_of,
    is_results,
    missing_percentages,
    percentages,
)
from tacit.run_folder.folder import RunFolder
from tacit.run_folder.run_cache import is_unpacked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Evaluations = Mapping[str, Mapping[str, Any]]
ENDINGS = {".html": "html", ".htm": "html", ".md": "markdown"}
STYLE = """
:root { color-scheme: light dark; --ink: #1d1c22; --soft: #5f5c66; --line: #e2dfd9; --paper: #fff }
@media (prefers-color-scheme: dark) {
  :root { --ink: #ececf1; --soft: #a4a5b1; --line: #2c2f38; --paper: #131418 }
  figure svg { background: #fff; border-radius: 8px }
}
body {
  font: 15px/1.5 system-ui, sans-serif; max-width: 68rem; margin: 2rem auto; padding: 0 1rem;
  color: var(--ink); background: var(--paper); display: grid; gap: 0 2.5rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
}
h1, .wide { grid-column: 1 / -1 }
section { min-width: 0 }
h1 { font-size: 1.6rem; margin: 0 }
h2 { font-size: 1.05rem; margin: 1.8rem 0 .3rem }
p { margin: .2rem 0; color: var(--soft); max-width: 48rem }
figure { margin: .4rem 0 }
svg { max-width: 100%; height: auto }
table {
  border-collapse: collapse; font-variant-numeric: tabular-nums; display: block;
  overflow-x: auto; margin: .4rem 0;
}
th, td {
  padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap;
}
th { color: var(--soft); font-weight: 500 }
th:first-child, td:first-child { text-align: left; padding-left: 0 }
td:nth-child(2):last-child { max-width: 22rem; overflow-wrap: anywhere; white-space: normal }
"""


@dataclass(frozen=True)
class Section:
    """A heading with a sentence, a table or a figure below it."""

    title: str
    text: str = ""
    header: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    figure: Figure | None = None

    @property
    def wide(self) -> bool:
        """Whether the section needs the whole width of a page."""
        return len(self.header) > 4 or (not self.header and self.figure is None)


def write_report(run: RunFolder, out: str | Path) -> Path:
    """Write the page of a run, as .html or .md by the file name."""
    out = Path(out)
    if out.suffix.lower() not in ENDINGS:
        raise SettingsError(f"out is '{out}'; it must end in .html or .md", "out")
    check_writable(out)
    write_text(out, report(run, ENDINGS[out.suffix.lower()]))
    return out


def report(run: RunFolder, kind: str = "html") -> str:
    """The page of a run as HTML or Markdown."""
    title = str(run.settings["graph"].get("name", "graph"))
    if not is_unpacked(run):  # whose folder has no name of its own
        title = f"{run.path.resolve().name}: {title}"
    render = to_html if kind == "html" else to_markdown
    return render(title, list(sections(run)))


def sections(run: RunFolder, figures_too: bool = True) -> Iterable[Section]:
    """The sections of a run's page, results first, with or without those of figures."""
    results = run.results()
    settings = run.settings
    stored = [evaluation for evaluation in results.get("eval", []) if is_results(evaluation)]
    names = [f"#{i}" for i in range(1, len(stored) + 1)] if len(stored) > 1 else ["this run"]
    evaluations = dict(zip(names, stored, strict=False))
    outdated = defaultdict[str, list[str]](list)
    for name, evaluation in evaluations.items():
        if "outdated" in evaluation:
            outdated[str(evaluation["outdated"])].append(name)
    if outdated:
        changes = (f"{', '.join(names)}: {change}" for change, names in outdated.items())
        yield Section("Outdated", "; ".join(changes) + ".")
    if evaluations:
        yield _settings_of(evaluations)
        yield from _metrics(evaluations)
        yield from _missing(evaluations)
        yield from _calibration(evaluations, figures_too)
    else:
        advice = "`tacit eval RUN` and `run.evaluate()` do that."
        yield Section("Evaluation", f"Nothing has been evaluated; {advice}")
    if figures_too:
        yield from _curves(run.events())
    for table, values in settings.items():
        yield _table_of(f"Settings: {table}", values)
    for name, values in results.items():
        if name != "eval" and isinstance(values, dict):
            yield _table_of(f"Results: {name}", values)


def _table_of(title: str, values: Mapping[str, Any]) -> Section:
    return Section(
        title, header=("", "value"), rows=[(name, _text(value)) for name, value in values.items()]
    )


def _settings_of(evaluations: Evaluations) -> Section:
    """The settings in which the evaluations differ, and the shared ones."""
    settings = {name: evaluation.get("settings", {}) for name, evaluation in evaluations.items()}
    keys = differences(list(settings.values()))
    values_of = {key: value for values in settings.values() for key, value in values.items()}
    text = ", ".join(f"{key} {_text(values_of[key])}" for key in values_of if key not in keys)
    if not keys:
        return Section("Evaluations", f"With {text}.", ("",))
    rows = [(name, *(_text(values.get(key)) for key in keys)) for name, values in settings.items()]
    return Section("Evaluations", f"All with {text}.", ("", *keys), rows)


def _metrics(evaluations: Evaluations) -> Iterable[Section]:
    """A table for each metric."""
    protocols = dict.fromkeys(
        f"{evaluation.get('ties')} ties, mean per {evaluation.get('mean', 'question')}"
        for evaluation in evaluations.values()
    )
    text = f"In percent; filtered ranks, {', '.join(protocols)}."
    for metric, title in ({**TITLES, "mrr": "Mean reciprocal rank"}).items():
        rows = {name: percentages(evaluation, metric) for name, evaluation in evaluations.items()}
        yield _percent(title, text, rows)


def _missing(evaluations: Evaluations) -> Iterable[Section]:
    """The mean reciprocal rank by the number of missing links of hard answers."""
    rows = {
        f"{name}, {links} missing": row
        for name, evaluation in evaluations.items()
        for links, row in missing_percentages(evaluation).items()
    }
    if rows:
        text = (
            "Mean reciprocal rank in percent, of the hard answers that so many links must be "
            "predicted for."
        )
        yield _percent("By missing links", text, rows)


def _percent(title: str, text: str, rows: Mapping[str, Mapping[str, float]]) -> Section:
    """A table of percentages by name, a column for each shape and average."""
    columns = columns_of(rows.values())
    cells = [(name, *(cell(row.get(column)) for column in columns)) for name, row in rows.items()]
    return Section(title, text, ("", *columns), cells)


def _calibration(evaluations: Evaluations, figures_too: bool) -> Iterable[Section]:
    curves = {
        f"{name}: {what}": curve
        for name, evaluation in evaluations.items()
        for what, curve in (evaluation.get("reliability") or {}).items()
    }
    if curves:
        rows = [
            (what, f"{c['ece']:.4f}", f"{c['brier']:.4f}", f"{c['count']:,}")
            for what, c in curves.items()
        ]
        header = ("", "calibration error", "Brier score", "scores")
        yield Section("Calibration", "Whether scores can be read as probabilities.", header, rows)
        if figures_too:
            yield _figure("Reliability", figures.reliability_diagram, curves)


def _curves(events: Sequence[Mapping[str, Any]]) -> Iterable[Section]:
    """One figure for each clock (epochs, steps) and each measure along it."""
    for clock in ("epoch", "step"):
        for measure, label in (("loss", "loss"), ("valid_mrr", "validation MRR")):
            pairs = ((event.get(clock), event.get(measure)) for event in events)
            points = np.array([p for p in pairs if all(isinstance(x, int | float) for x in p)])
            if len(points) > 1:
                # The clock of a trace goes back where its run was started again.
                restarts = np.flatnonzero(np.diff(points[:, 0]) <= 0) + 1
                curves = list(enumerate(np.split(points, restarts), 1))
                latest = curves[-len(figures.COLOURS) :]  # more fit into no legend
                lines = {f"{measure} #{i}": curve.T for i, curve in latest}
                title = f"{label[:1].upper()}{label[1:]} by {clock}"
                if len(latest) < len(curves):
                    title += f", the last {len(latest)} of {len(curves)} trainings"
                yield _figure(title, figures.steps, lines, label, clock)


def _figure(title: str, draw: Callable[..., Figure], *values: Any) -> Section:
    try:
        return Section(title, figure=draw(*values))
    except SettingsError as error:  # without matplotlib a report has its tables
        return Section(title, str(error))


def differences(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The settings in which evaluations differ.

    >>> differences([{"k": 64, "logic": "product"}, {"k": 512, "logic": "product"}])
    ['k']
    """
    keys = dict.fromkeys(key for values in settings for key in values)
    return [key for key in keys if len({str(values.get(key)) for values in settings}) > 1]


def to_html(title: str, sections: Sequence[Section]) -> str:
    """The sections as one HTML page."""
    title = html.escape(title)
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>\n<h1>{title}</h1>"
    ]
    for section in sections:
        wide = " class=wide" if section.wide else ""
        parts.append(f"<section{wide}><h2>{html.escape(section.title)}</h2>")
        if section.text:
            parts.append(f"<p>{html.escape(section.text)}</p>")
        if section.rows:
            lines = _html_row("th", section.header), *(_html_row("td", row) for row in section.rows)
            parts.append(f"<table>{''.join(lines)}</table>")
        if section.figure is not None:
            parts.append(f"<figure>{figures.svg(section.figure)}</figure>")
        parts.append("</section>")
    return "\n".join([*parts, "</body></html>\n"])


def to_markdown(title: str, sections: Sequence[Section]) -> str:
    """The sections as one Markdown page, its figures inline."""
    parts = [f"# {title}"]
    for section in sections:
        parts.append(f"## {section.title}")
        if section.text:
            parts.append(section.text)
        if section.rows:
            rule = "|---|" + "---:|" * (len(section.header) - 1)
            parts.append("\n".join([_line(section.header), rule, *map(_line, section.rows)]))
        if section.figure is not None:
            png = io.BytesIO()
            section.figure.savefig(png, format="png", dpi=110)
            data = base64.b64encode(png.getvalue()).decode()
            parts.append(f"![{section.title}](data:image/png;base64,{data})")
    return "\n\n".join(parts) + "\n"


def _html_row(cell: str, values: Sequence[str]) -> str:
    return "<tr>" + "".join(f"<{cell}>{html.escape(value)}</{cell}>" for value in values) + "</tr>"


def _line(values: Sequence[str]) -> str:
    cells = " | ".join(value.replace("|", "\\|") for value in values)
    return f"| {cells} |".replace("|  |", "| |")


def _text(value: Any) -> str:
    """A value as readable text: few digits, lists with commas, a dash for nothing.

    >>> _text(0.99902343746), _text(["2i", "3i"]), _text({"2i": 90}), _text(True), _text(None)
    ('0.999', '2i, 3i', '2i: 90', 'yes', '-')
    """
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {_text(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
