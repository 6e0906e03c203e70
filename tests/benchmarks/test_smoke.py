"""Every script of `benchmarks` runs at tiny sizes and writes results with provenance."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

import pytest

import tiny
from source_tree import ROOT

RUNS: dict[str, tuple[str, ...]] = {
    "adapter_step": (),
    "add": ("NELL995",),
    "ask": (),
    "busy": (),
    "busy --cycles": ("--cycles",),
    "certified": (),
    "certified --relations": ("--relations", "2"),
    "codes": ("--shapes", "1p,2in"),
    "choose": ("nell995",),
    "completion": ("NELL995",),
    "defaults": (),
    "encoders": ("--encoders", "gqe,gnnqe"),
    "engine": (),
    "engine --throughput": ("--throughput",),  # what a GPU runs
    "evidence": (),
    "evidence --new": ("NELL995", "--new"),
    "fuzz": ("--only", "tsv,arrays,id maps"),
    "growth": ("--parts", "k,atoms,training,service,laptop"),
    "hardness": ("--shapes", "2i,2in", "--ways", "cap 0.5,odds x 4"),
    "load": (),
    "million": (),
    "parameters": ("--encoders", "gqe,gnnqe"),
    "parsing": (),
    "possible": (),
    "ranking": (),
    "ranks": (),
    "reproduce nell995": ("nell995", "--rows", "cqd-co,cqd-a,tacit-train-new"),
    "reproduce fb15k237": ("fb15k237", "--rows", "cqd-a-1percent,link-prediction"),
    "reproduce nell995-systems": ("nell995-systems", "--rows", "gqe,qto,fit,cqd-hybrid"),
    "reproduce fb15k237-ablation": ("fb15k237-ablation", "--rows", "cqd-f,cqd-af,cqd-r,cqd-c"),
    "rule_hops": (),
    "rules": (),
    "sampling": (),
    "scale": (),
    "scale --files": ("--files",),
    "service": (),
    "shards": (),
    "startup": (),
    "startup --facts": ("--facts",),
    "symbolic": (),
    "train_step": (),
    "value_questions": (),
    "values": (),
    "world": (),
    "world_systems": ("--rows", "complex,complex-adapted,gqe"),
}
TOOLS = {
    "ablation_variants",
    "before_after",
    "brute_force",
    "comparison",
    "encoder_costs",
    "encoder_rows",
    "exponents",
    "figures",
    "published",
    "scaffold",
    "tiny",
    "walks",
    "written_tables",
}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.write_data(tmp_path_factory.mktemp("data"))


def test_every_script_is_tried() -> None:
    scripts = {path.stem for path in (ROOT / "benchmarks").glob("*.py")}
    assert scripts - TOOLS == {name.split()[0] for name in RUNS}


@pytest.mark.parametrize("name", RUNS)
def test_a_script_runs_and_records_what_figures_depend_on(
    name: str, data: Path, tmp_path: Path
) -> None:
    script = import_module(name.split()[0])
    script.main(["--tiny", "--data", str(data), "--out", str(tmp_path), *RUNS[name]])
    files = [json.loads(path.read_text()) for path in tmp_path.rglob("*.json")]
    assert files
    for written in files:
        assert {"seed", "device", "threads", "versions"} <= set(written)
        assert written["versions"]["torch"]
        assert written.get("figures") or written["mrr"]
