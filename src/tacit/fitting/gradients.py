"""Gradients for training functions, whatever the grad mode of the caller."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def with_gradients(learn: Callable[P, T]) -> Callable[P, T]:
    """Wrap a function so that it runs outside of `no_grad` and inference mode.

    Tensors made in inference mode could never be trained again.
    """

    @wraps(learn)
    def called(*args: P.args, **kwargs: P.kwargs) -> T:
        import torch  # here, since whoever only loads a graph need not wait for it

        with torch.inference_mode(False), torch.enable_grad():
            return learn(*args, **kwargs)

    return called
