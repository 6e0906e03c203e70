"""Run folders of a stranger are read, or refused with an error that names the file."""

from __future__ import annotations

import json
import struct
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from scaffold import read_results
from tacit.disk import digest, to_toml
from tacit.errors import RunError, TacitError
from tacit.fitting.checkpoint import CheckpointStore, TrainerState, read_state
from tacit.fitting.tensor_files import RunFiles
from tacit.graph.graph import Graph
from tacit.graph.stored import FACTS, KEYS, OFFSETS, TAILS
from tacit.links.models import load_model, make_model, save_model
from tacit.links.settings import TrainSettings
from tacit.run_folder.files import CHECKPOINT, MODEL, RESULTS, SETTINGS, TRACE
from tacit.run_folder.folder import RunFolder

GRAPH = Graph.of([("a", "p", "b"), ("b", "p", "c"), ("c", "q", "a")])
DEEP = "[" * 1_000_000


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder.create(tmp_path / "run", GRAPH, TrainSettings(rank=2, device="cpu").to_dict())
    save_model(run, make_model("distmult", 3, 4, 2))
    return run


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[files]", "[[files]]", "'files' is no table"),
        ("[graph]", "[[graph]]", "'graph' is no table"),
        ("[graph]", "x = 1\n[graph]", "'x' is no table"),
        ("entities = 3", 'entities = "3"', "entities is '3'"),
        ("entities = 3", "entities = [3]", r"entities is \[3\]"),
        ("entities = 3", "entities = nan", "entities is nan"),
        ("entities = 3", "entities = true", "entities is True"),
        ("entities = 3", "entities = -3", "entities is -3"),
        ("entities = 3", "", "entities is None"),
        ("entities = 3", "entities = 3\nentities = 4", "Cannot overwrite"),
        ("entities = 3", f"entities = {'9' * 5000}", "4300 digits"),
        ("entities = 3", f"entities = 0x{'f' * 5000}", "more than 64 bits"),
        ("entities = 3", f"entities = {DEEP}", "recursion"),
        ("entities = 3", f"{'a.' * 100_000}a = 3", "more than 64 dots"),
        ("entities = 3", f"entities = {{{'a.' * 100_000}a = 3}}", "more than 64 dots"),
        ("[graph]", "#" * 2_000_000 + "\n[graph]", "longer than 1 MB"),
    ],
)
def test_settings_of_odd_types(run: RunFolder, old: str, new: str, says: str) -> None:
    path = run.path / SETTINGS
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(RunError, match=rf"settings\.toml .*{says}"):
        RunFolder.open(run.path).graph()


def test_settings_that_are_no_text_come_with_advice(run: RunFolder) -> None:
    path = run.path / "settings.toml"
    path.write_bytes(b"\xff" + path.read_bytes())
    with pytest.raises(RunError, match=r"settings.toml is damaged .*; train the run again"):
        RunFolder.open(run.path)


def rewrite(run: RunFolder, name: str, content: bytes) -> None:
    """Replace a file of the graph and its recorded checksum, as an attacker would."""
    (run.path / name).write_bytes(content)
    settings = tomllib.loads((run.path / SETTINGS).read_text())
    settings["files"][name] = digest(run.path / name)
    (run.path / SETTINGS).write_text(to_toml(settings))


def npy(shape: str, kind: str = "'<i4'", data: bytes = b"") -> bytes:
    """A `.npy` file with any header."""
    header = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (FACTS, npy("(3, 3)", data=bytes(35))),  # a byte too few
        (FACTS, npy("(1000000000000, 3)")),
        (FACTS, npy("(4611686018427387904, 4)")),  # which is 0 in 64 bits
        (FACTS, npy("(-3, 3)", data=bytes(36))),
        (FACTS, npy("(3, 3)", "'|O'", bytes(72))),
        (FACTS, npy("(3, 3)", "'<f4'", bytes(36))),
        (FACTS, npy("(9,)", data=bytes(36))),
        (FACTS, npy("(" * 200)),
        (FACTS, npy("(3, 3)", "[('a', '<i4')]", bytes(36))),
        (FACTS, b"PK\x03\x04" + bytes(100)),
        (FACTS, b"PK\x05\x06" + bytes(18)),  # an empty zip, which numpy opens
        (FACTS, b""),
        # three entities
        (FACTS, npy("(3, 3)", data=np.array([[0, 0, 1], [1, 0, 2], [2, 2, 3]], "<i4").tobytes())),
        (FACTS, npy("(3, 3)", data=np.array([[0, 0, 1], [1, 0, -2], [2, 2, 0]], "<i4").tobytes())),
        (KEYS, npy("(6,)", "'<i8'", np.array([5, 4, 3, 2, 1, 0], "<i8").tobytes())),
        (KEYS, npy("(6,)", "'<i8'", np.array([0, 1, 2, 3, 4, 12], "<i8").tobytes())),
        (OFFSETS, npy("(7,)", "'<i8'", np.array([0, 1, 2, 9, 4, 5, 6], "<i8").tobytes())),
        (OFFSETS, npy("(7,)", "'<i8'", np.array([0, 1, 2, 3, 4, 5, 600], "<i8").tobytes())),
        (TAILS, npy("(6,)", data=np.array([0, 1, 2, 3, 1, 2], "<i4").tobytes())),
    ],
)
def test_arrays_that_lie(run: RunFolder, name: str, content: bytes) -> None:
    rewrite(run, name, content)
    with pytest.raises(
        RunError,
        match=rf"the graph in '.*' cannot be read \((its sizes|.*{name.removesuffix('.npy')})",
    ):
        RunFolder.open(run.path).graph()


def test_arrays_as_they_were_written_are_read(run: RunFolder) -> None:
    for name in (FACTS, KEYS, OFFSETS, TAILS):
        rewrite(run, name, (run.path / name).read_bytes())
    assert RunFolder.open(run.path).graph().facts().tolist() == GRAPH.facts().tolist()


EVALUATIONS = ['{"eval": null}', '{"eval": ["x"]}', '{"eval": [{"settings": []}]}']


@pytest.mark.parametrize(
    "text", [f'{{"a": {DEEP}}}', "[1, 2]", "{", '{"a": ' + "9" * 5000 + "}", "\0", *EVALUATIONS]
)
def test_results_that_are_none(run: RunFolder, text: str) -> None:
    (run.path / RESULTS).write_text(text)
    with pytest.raises(RunError, match=r"results\.json is damaged"):
        run.results()
    with pytest.raises(TacitError, match=r"results\.json: (is not JSON|holds no results)"):
        read_results(run.path / RESULTS)


def test_a_trace_that_is_none(run: RunFolder) -> None:
    (run.path / TRACE).write_text('{"event": "step"}\n{"a": ' + DEEP + "}\n")
    with pytest.raises(RunError, match=r"trace\.jsonl is damaged .*nests too deep"):
        run.events()


@pytest.mark.parametrize(
    "change",
    [
        {"step": "1"}, {"step": -1}, {"step": 10**30}, {"loss": None}, {"best": []},
        {"history": [1]}, {"done": 1.5}, {"unknown": 1},
    ],
)  # fmt: skip
def test_positions_of_odd_types(run: RunFolder, change: dict[str, Any]) -> None:
    position = json.dumps(vars(TrainerState()) | change)
    run.write_tensors(
        CHECKPOINT, {}, {"format": "tacit checkpoint 3", "position": position, "stamp": "{}"}
    )
    with pytest.raises(RunError, match=r"checkpoint\.safetensors is no checkpoint"):
        read_state(run, CHECKPOINT)


@pytest.mark.parametrize("stamp", ["[1]", DEEP, "nothing", '"a"'])
def test_stamps_of_odd_types(run: RunFolder, stamp: str) -> None:
    position = json.dumps(vars(TrainerState()))
    run.write_tensors(
        CHECKPOINT, {}, {"format": "tacit checkpoint 3", "position": position, "stamp": stamp}
    )
    with pytest.raises(RunError, match=r"checkpoint\.safetensors is no checkpoint"):
        CheckpointStore(RunFiles(run), CHECKPOINT, {"settings": "1"}).read()


def header(change: Callable[[dict[str, Any]], object], data: bytes) -> bytes:
    """A safetensors file with its header changed."""
    length = int.from_bytes(data[:8], "little")
    fields = json.loads(data[8 : 8 + length])
    change(fields)
    text = json.dumps(fields).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + length :]


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields["entities.weight"].update(shape=[2**40, 2]),
        lambda fields: fields["entities.weight"].update(shape=[2**63, 2**63]),
        lambda fields: fields["entities.weight"].update(data_offsets=[0, 2**60]),
        lambda fields: fields["entities.weight"].update(dtype="I32"),
        lambda fields: fields["__metadata__"].update(rank="9" * 5000),
        lambda fields: fields["__metadata__"].update(rank=str(2**62)),
        lambda fields: fields["__metadata__"].update(parts="model-1.safetensors"),
        lambda fields: fields["__metadata__"].update(model="no" * 5000),
        lambda fields: fields.update({"x" * 100_000: fields.pop("entities.weight")}),
    ],
)
def test_weights_whose_header_lies(
    run: RunFolder, change: Callable[[dict[str, Any]], object]
) -> None:
    path = run.path / MODEL
    path.write_bytes(header(change, path.read_bytes()))
    with pytest.raises(RunError, match=r"model.*\.safetensors") as caught:
        load_model(run)
    assert len(str(caught.value)) <= 1000
    path.write_bytes(struct.pack("<Q", 2**63) + b"{}")
    with pytest.raises(RunError, match=r"model\.safetensors is truncated"):
        load_model(run)


def test_whole_weights_are_read(run: RunFolder) -> None:
    path = run.path / MODEL
    path.write_bytes(header(lambda fields: None, path.read_bytes()))
    assert torch.equal(load_model(run).entities.weight, torch.zeros(3, 2))
