"""Memory for short-lived results."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import torch
from torch import Tensor

_BEHIND = 2**11  # extra floats at the end, so that kernels can use whole vectors


class ScratchBuffers:
    """Reused memory for results, by thread: touching fresh memory costs time."""

    def __init__(self) -> None:
        self._own = threading.local()

    def __reduce__(self) -> tuple[type[ScratchBuffers], tuple[()]]:
        return ScratchBuffers, ()  # the content is local to a process

    def __call__(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        """A tensor of a shape, in the memory of its name, which grows as needed."""
        rooms: dict[str, Tensor] = vars(self._own)
        size = math.prod(shape)
        if name not in rooms or rooms[name].numel() < size + _BEHIND:
            with torch.inference_mode(False):  # so that it can be written to outside of that mode
                rooms[name] = torch.empty(size + _BEHIND, device=device)
        return rooms[name][:size].view(*shape)
