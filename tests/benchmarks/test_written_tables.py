from __future__ import annotations

import doctest
import json
import re
from pathlib import Path

import pytest

import written_tables
from published import PARAMETERS, PUBLISHED, published
from source_tree import ROOT
from tacit.errors import DataError, TacitError, UnknownName
from tacit.query.sampling.shapes import NEGATIVE, POSITIVE
from written_tables import TABLES, Row, main, markdown, refreshed, stale, tables

RESULTS = dict.fromkeys(("mrr", "hits@1", "hits@3", "hits@10"), dict.fromkeys(POSITIVE, 0.25))


def test_the_examples_in_its_documentation_hold() -> None:
    tested = doctest.testmod(written_tables)
    assert tested.attempted
    assert not tested.failed


@pytest.mark.parametrize(("name", "shapes"), [("avg_p", POSITIVE), ("avg_n", NEGATIVE)])
def test_published_averages_agree_with_their_columns(name: str, shapes: tuple[str, ...]) -> None:
    for benchmark, rows in PUBLISHED.items():
        for method, row in rows.items():
            # a slip in print
            if name in row and (benchmark, method, name) != ("FB15k", "CQD^A", "avg_n"):
                mean = sum(row[shape] for shape in shapes) / len(shapes)
                # cells are rounded to one decimal
                assert row[name] == pytest.approx(mean, abs=0.11), method


def test_published_methods_have_known_parameter_counts() -> None:
    assert set(PARAMETERS) <= set(PUBLISHED["FB15k"])
    assert all(set(counts) == set(PUBLISHED) for counts in PARAMETERS.values())


def test_markdown_orders_columns_and_marks_the_best_as_printed() -> None:
    rows = [
        Row("CQD^A", published("NELL995", "CQD^A"), True),
        Row("ours", {"2p": 22.94, "1p": 61.0, "4p": 1.0}),
    ]
    lines = markdown(rows).split("\n")
    assert (
        lines[0]
        == "| | avg_p | avg_n | 1p | 2p | 3p | 2i | 3i | pi | ip | 2u | up | 2in | 3in | inp | "
        "pin | pni | 4p |"
    )
    assert lines[2].startswith("| *CQD^A* | 32.3 | 13.3 | 60.4 | **22.9** | 16.7 |")
    assert lines[3].startswith("| ours | - | - | **61.0** | **22.9** | - |")
    assert markdown([Row("a", {"1p": 9.0}), Row("b", {"1p": 10.0})]).endswith("| b | **10.0** |")
    with pytest.raises(TacitError, match="at least one row"):
        markdown([])


def test_unknown_published_rows_name_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="NELL995"):
        published("NELL", "QTO")
    with pytest.raises(UnknownName, match="CQD-CO"):
        published("NELL995", "CQD")


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "ours.json").write_text(json.dumps(RESULTS))
    path = tmp_path / "tables.toml"
    path.write_text(
        '[main]\nbenchmark = "NELL995"\npublished = ["QTO"]\nrows = [["ours", "ours.json"]]\n'
    )
    return path


def test_documents_are_filled_checked_and_stay_filled(
    spec: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = spec.parent / "README.md"
    document.write_text("Before.\n\n<!-- table: main -->\nold\n<!-- end -->\n\nAfter.\n")
    assert main([str(document), "--tables", str(spec), "--check"]) == 1
    assert "out of date" in capsys.readouterr().out
    assert main([str(document), "--tables", str(spec)]) == 0
    text = document.read_text()
    assert text.startswith("Before.\n\n<!-- table: main -->\n| | avg_p |")
    assert text.endswith("|\n<!-- end -->\n\nAfter.\n")
    assert "old" not in text
    assert main([str(document), "--tables", str(spec), "--check"]) == 0


def test_a_document_that_asks_for_an_unknown_table() -> None:
    with pytest.raises(DataError, match="asks for table 'y'; the tables are x"):
        refreshed("<!-- table: y -->\n<!-- end -->", {"x": ""})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[x]\n", r"table \[x\] has no rows"),
        ('[x]\nrows = ["ours.json"]', "where .LABEL, FILE. is expected"),
        ('[x]\nrows = [["a", "none.json"]]', "none.json: cannot be read"),
        ('[x]\nrows = []\ncolour = "red"', "unknown key 'colour'"),
        ("[x", "is not TOML"),
    ],
)
def test_errors_in_the_file_of_tables(spec: Path, text: str, message: str) -> None:
    spec.write_text(text)
    with pytest.raises(DataError, match=message):
        tables(spec)
    assert main(["README.md", "--tables", str(spec)]) == 2


def test_the_tables_of_this_project_are_up_to_date() -> None:
    expected = tables(TABLES)
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    shown = {
        name
        for page in pages
        for name in re.findall(r"^<!-- table: (\S+) -->$", page.read_text(), re.MULTILINE)
    }
    assert shown == set(expected), "every table of benchmarks/tables.toml stands somewhere"
    assert stale(pages, expected) == [], (
        "run python benchmarks/written_tables.py README.md docs/*.md"
    )


def test_rows_of_encoders_say_how_far_they_were_trained_and_those_not_run_are_left_out(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.json").write_text(json.dumps(RESULTS | {"encoding": {"cut": "3 of 8 minutes"}}))
    (tmp_path / "b.json").write_text(json.dumps(RESULTS | {"encoding": {"model": "gqe"}}))
    rows = 'columns = ["1p"]\nrows = [["a", "a.json"], ["b", "b.json"], ["c", "c.json"]]'
    (tmp_path / "t.toml").write_text(f"[some]\npartial = true\n{rows}\n")
    assert tables(tmp_path / "t.toml")["some"].split("\n")[2:] == [
        "| a, 3 of 8 minutes | **25.0** |",
        "| b | **25.0** |",
    ]
    (tmp_path / "t.toml").write_text('[none]\npartial = true\nrows = [["c", "c.json"]]\n')
    assert tables(tmp_path / "t.toml")["none"] == "Not measured yet."
    (tmp_path / "t.toml").write_text(f"[all]\n{rows}\n")
    with pytest.raises(DataError, match=r"c\.json: cannot be read"):
        tables(tmp_path / "t.toml")


def test_what_a_benchmark_measured_is_a_table(tmp_path: Path) -> None:
    figures = {"gqe": {"ms": 1.23456, "steps": 1200}, "q2b": {"ms": 2.0, "note": "eager"}}
    (tmp_path / "f.json").write_text(json.dumps({"figures": figures}))
    (tmp_path / "bad.json").write_text("{}")
    spec = tmp_path / "t.toml"
    spec.write_text(
        '[all]\nfigures = "f.json"\n[one]\nfigures = "f.json"\ncolumns = ["ms"]\n'
        '[noted]\nfigures = "f.json"\ncolumns = ["note"]\n'
    )
    found = tables(spec)
    assert found["all"].split("\n") == [
        "| | ms | steps | note |",
        "|---|---:|---:|---:|",
        "| gqe | 1.235 | 1,200 | - |",
        "| q2b | 2 | - | eager |",
    ]
    assert found["one"].endswith("| gqe | 1.235 |\n| q2b | 2 |")
    # rows that have none of the columns are left out
    assert found["noted"].endswith("|\n| q2b | eager |")
    spec.write_text('[x]\nfigures = "none.json"\npartial = true\n')
    assert tables(spec)["x"] == "Not measured yet."
    for file, message in (("none.json", "cannot be read"), ("bad.json", "holds no figures")):
        spec.write_text(f'[x]\nfigures = "{file}"\n')
        with pytest.raises(DataError, match=message):
            tables(spec)


def test_rows_by_missing_links_and_rows_with_known_answers_last(tmp_path: Path) -> None:
    row = {"mrr": 0.25, "hits@1": 0.125}
    results = RESULTS | {
        "by_missing": {"2i": {"1": row, "2": {"mrr": 0.1, "hits@1": 0.05}}, "1p": {"1": row}}
    }
    (tmp_path / "a.json").write_text(json.dumps(results))
    (tmp_path / "b.json").write_text(json.dumps(results | {"settings": {"new": True}}))
    (tmp_path / "c.json").write_text(json.dumps(RESULTS))
    rows = 'rows = [["a", "a.json"], ["b", "b.json"]]'
    (tmp_path / "t.toml").write_text(
        f"[two]\nmissing = 2\n{rows}\n[one]\nmissing = 1\nmetric = "
        f"'hits@1'\n{rows}\n[all]\n{rows}\n"
    )
    found = tables(tmp_path / "t.toml")
    assert found["two"].split("\n")[::2] == ["| | 2i |", "| a | **10.0** |"]
    assert "| b, known answers last | **12.5** | **12.5** |" in found["one"]
    assert "| b, known answers last |" in found["all"]
    (tmp_path / "t.toml").write_text('[bad]\nmissing = 1\nrows = [["c", "c.json"]]\n')
    with pytest.raises(DataError, match="no figures by missing links; evaluate with --by-missing"):
        tables(tmp_path / "t.toml")
