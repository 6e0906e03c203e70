"""Memory for results that are soon replaced by others."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence

import torch
from torch import Tensor

_BEHIND = 2**11  # floats behind those asked for, to compute on in whole vectors


class Rooms:
    """Memory for results, of each thread its own: fresh memory costs more to touch than most results to compute."""

    def __init__(self) -> None:
        self._own = threading.local()

    def __reduce__(self) -> tuple[type[Rooms], tuple[()]]:
        return Rooms, ()  # what is in them is never of use to another process

    def __call__(self, name: str, shape: Sequence[int], device: torch.device) -> Tensor:
        """Numbers of a shape, in the same memory whenever the name is the same, which grows to the largest size."""
        rooms: dict[str, Tensor] = vars(self._own)
        size = math.prod(shape)
        if name not in rooms or rooms[name].numel() < size + _BEHIND:
            with torch.inference_mode(False):  # or nobody could write to it outside of that mode
                rooms[name] = torch.empty(size + _BEHIND, device=device)
        return rooms[name][:size].view(*shape)
