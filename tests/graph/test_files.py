"""Packed files are unpacked as they are read, and no further than in proportion to their size."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tracemalloc
from pathlib import Path

import pytest

from tacit.errors import DataError
from tacit.graph.datasets import load
from tacit.graph.formats import files

PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
FACTS = {
    "x.tsv": b"http://a.example/someone\thttp://a.example/knows\thttp://a.example/anyone\n",
    "x.nt": b"<http://a.example/someone> <http://a.example/knows> <http://a.example/anyone> .\n",
    "x.ttl": b"<http://a.example/someone> <http://a.example/knows> <http://a.example/anyone> .\n",
}


@pytest.fixture(autouse=True)
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "UNPACKED", 1 << 18)


@pytest.mark.parametrize(
    ("name", "kind"), [*(("x.tsv", kind) for kind in PACKED), ("x.nt", ".gz"), ("x.ttl", ".gz")]
)
def test_a_file_that_unpacks_to_far_more_than_its_size_is_refused(
    tmp_path: Path, name: str, kind: str
) -> None:
    path = tmp_path / f"{name}{kind}"
    once = FACTS[name] * ((1 << 20) // len(FACTS[name]))
    path.write_bytes(PACKED[kind](once) * 64)  # packed parts may follow one another
    tracemalloc.start()
    try:
        with pytest.raises(
            DataError,
            match=rf"{name}{kind}: unpacks to more than {files.UNPACKED_A_BYTE[kind]} times",
        ):
            load(path)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20  # of 64 MB and what is made of them
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", PACKED)
def test_sorted_facts_of_one_relation_are_read_whole(tmp_path: Path, kind: str) -> None:
    facts = "".join(
        f"<http://a.example/Q{i}>\t<http://a.example/P31>\t<http://a.example/Q5>\n"
        for i in range(40_000)
    )
    path = tmp_path / f"x.tsv{kind}"
    path.write_bytes(PACKED[kind](facts.encode()))
    assert b"".join(block for _, block in files.blocks(path)).decode() == facts
