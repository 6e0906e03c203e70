"""Loads untrusted pickles, after a trial in a process with limited resources.

A pickle is a program. It can call nothing here, but a few hundred bytes can still take a lifetime
to hash, overflow the stack or fill the memory. A pickle that the trial reads is safe to read in
this process. This file is also the script of the trial, so its top imports the standard library
alone.
"""

from __future__ import annotations

import gc
import io
import math
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections import OrderedDict, defaultdict
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, ClassVar, NamedTuple

# limits of processor time; honest pickles take up to 0.08 s a megabyte
SECONDS = 2.0
SECONDS_A_MB = 1.0
# limits of memory; honest pickles take 6 to 31 bytes a byte
BYTES = 1 << 28
BYTES_A_BYTE = 64
# times as long by the clock, for busy machines and systems without limits of processor time
_PATIENCE = 20
_STACK = 1 << 18  # bytes; less than the stack of any thread that reads pickles
_CHUNK = 1 << 18  # bytes that are read at once
_WIDTHS = {
    "Double": 8,
    "Float": 4,
    "Half": 2,
    "BFloat16": 2,
    "Long": 8,
    "Int": 4,
    "Short": 2,
    "Char": 1,
    "Byte": 1,
}


class PlainData(pickle.Unpickler):
    """An unpickler that knows plain types alone, and can call nothing else.

    These are ints, strings, tuples, sets, dicts and defaultdicts.
    """

    allowed: ClassVar[dict[tuple[str, str], Any]] = {
        ("collections", "defaultdict"): defaultdict,
        **{
            (module, kind.__name__): kind
            for module in ("builtins", "__builtin__")
            for kind in (set, frozenset)
        },
    }

    def find_class(self, module: str, name: str) -> Any:
        """Returns one of the few plain types."""
        try:
            return self.allowed[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it refers to {module}.{name}") from None

    def persistent_load(self, pid: Any) -> Any:
        """Refuses references to external objects."""
        raise pickle.UnpicklingError("it refers to objects outside the file")


class _Storage(NamedTuple):
    """A placeholder for the numbers of a tensor, which are not read."""

    numel: int


def _tensor(storage: _Storage, offset: int, size: tuple[int, ...], *_: Any) -> None:
    """Refuses a tensor larger than its storage, since a copy would need that memory."""
    if not all(type(n) is int and n >= 0 for n in size) or math.prod(size) > storage.numel:
        raise pickle.UnpicklingError("it holds a tensor with fewer numbers than its shape says")


class _Tensors(PlainData):
    """Reads torch's dicts of tensors without torch, checking sizes against the file."""

    allowed: ClassVar[dict[tuple[str, str], Any]] = {
        **PlainData.allowed,
        ("collections", "OrderedDict"): OrderedDict,
        ("torch._utils", "_rebuild_tensor_v2"): _tensor,
        ("torch._utils", "_rebuild_parameter"): lambda *_: None,
        ("torch", "Size"): tuple,
        **{("torch", f"{kind}Storage"): width for kind, width in _WIDTHS.items()},
    }

    def __init__(self, file: IO[bytes], room: int) -> None:
        super().__init__(file)
        self._room = room  # bytes of the file
        self._bytes = dict[str, int]()  # of each storage

    def persistent_load(self, pid: Any) -> _Storage:
        """The storage of a tensor, which several tensors may share."""
        try:
            _, width, key, _, numel, *_ = pid
            self._bytes[str(key)] = width * numel
            wrong = type(numel) is not int or numel < 0 or sum(self._bytes.values()) > self._room
        except (TypeError, ValueError):
            wrong = True
        if wrong:
            raise pickle.UnpicklingError("it names more numbers than it holds")
        return _Storage(numel)


class _Interruptible(io.BytesIO):
    """Bytes that Python reads in chunks, so that Ctrl-C is heeded between them."""

    def readinto(self, buffer: Any) -> int:
        return super().readinto(buffer)


def load_pickle(path: str | Path) -> Any:
    """Loads the plain data of a pickle; it refuses anything that could run code.

    `rehearse` refuses a pickle that would crash, never end or take all memory.
    """
    from tacit.errors import DataError
    from tacit.graph.formats.files import open_file

    with open_file(Path(path)) as file:
        data = file.read()
    if reason := rehearse(data):
        refused = f"is not a pickle of plain ints, strings, tuples, sets and dicts ({reason})"
        raise DataError(f"{refused}; it was refused and nothing in it was executed", path)
    collecting = gc.isenabled()
    gc.disable()  # plain data has no cycles, and looking for some takes as long as reading
    try:
        return PlainData(io.BufferedReader(_Interruptible(data), _CHUNK)).load()
    finally:
        if collecting:
            gc.enable()


def rehearse(data: bytes, *, pickles: int = 1, room: int | None = None) -> str:
    """The first problem in a sequence of pickles, found in a child process; or "".

    They hold plain data, or with `room`, the size of a file, the tensors in that file. They may
    take 2 s of processor time and one more for each megabyte, and 256 MB of memory and 64 bytes for
    each byte. On a system without such limits, such as Windows, they may take 20 times as long by
    the clock, and any memory.
    """
    seconds = SECONDS + SECONDS_A_MB * len(data) / 1e6
    memory = BYTES + BYTES_A_BYTE * len(data)
    arguments = (seconds, memory, pickles, -1 if room is None else room)
    command = [sys.executable or "python3", "-I", "-S", __file__, *map(str, arguments)]
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, timeout=_PATIENCE * seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return f"it takes more than {_PATIENCE * seconds:.0f} s"
    except OSError as error:
        return f"no process could be started to try it in: {error}"
    if done.returncode == 0 and done.stdout:
        return ""
    if done.stdout:
        return " ".join(done.stdout.decode(errors="replace").split())[:200]
    if -done.returncode == getattr(signal, "SIGPROF", 0):
        return f"it takes more than {seconds:.0f} s of processor time"
    crashed = done.returncode < 0 or os.name == "nt"
    return (
        "it nests so deep that reading it ends the process"
        if crashed
        else "the process to try it in did not start"
    )


def _limit(seconds: float, memory: int) -> None:
    """Limits the time and memory of this process, as far as the system can."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.setitimer(signal.ITIMER_PROF, seconds)
        resource.setrlimit(resource.RLIMIT_AS, (memory, memory))


def _fault(file: IO[bytes], pickles: int, room: int) -> str:
    """The problem in reading pickles; freeing their data can overflow the stack too."""
    try:
        for _ in range(pickles):
            (PlainData(file) if room < 0 else _Tensors(file, room)).load()
    except MemoryError:
        return "it takes more memory than its size allows"
    except Exception as error:  # a damaged pickle can raise nearly anything
        return str(error)[:1000] or type(error).__name__
    return ""


def _main(seconds: str, memory: str, pickles: str, room: str) -> None:
    """Reads pickles from standard input; reports the first problem and exits with 1."""
    gc.disable()
    file = io.BytesIO(sys.stdin.buffer.read())
    _limit(float(seconds), int(memory))
    threading.stack_size(_STACK)
    faults: list[str] = []
    thread = threading.Thread(target=lambda: faults.append(_fault(file, int(pickles), int(room))))
    thread.start()
    thread.join()
    sys.stdout.buffer.write((faults[0] or "whole").encode(errors="replace"))
    sys.stdout.flush()
    os._exit(bool(faults[0]))


if __name__ == "__main__":
    _main(*sys.argv[1:])
