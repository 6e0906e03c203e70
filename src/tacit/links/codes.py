"""Keys in a byte per number, with approximate products and bounds of their errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import torch
import torch.nn.functional as F
from torch import Tensor

from tacit.links.scorer import BilinearScorer, writes_to

_BLOCK = 1024  # keys whose floats stay in cache
# relative rounding error of a summed product of floats, once for codes and once for keys
ROUNDING = 2.0**-22
FEW = 8  # queries that a kernel over bytes serves sooner than floats made of them
_WIDTH = 32  # the numbers of a key are padded to a multiple, since that kernel reads registers
_ALIGNED = 64  # bytes; the kernel crashes on numbers that do not start at a multiple
_NARROW = 2.0**-8  # relative error of a result that is rounded to bfloat16
_SAMPLED = 256  # keys that codes are compared with
_PROBED = 4096  # keys that the kernel is tried on


@dataclass(frozen=True, eq=False)
class Codes:
    """Keys quantised to a byte per number, `e ≈ scales · numbers`, with error bounds."""

    numbers: Tensor  # [N, D], int8, padded with zeros
    scales: Tensor  # [N], each a bfloat16
    errors: Tensor  # [N], at least |e - e'|, rounding of a product with a unit vector included
    norms: Tensor  # [N], at least |e'|

    def __post_init__(self) -> None:
        if self.numbers.data_ptr() % _ALIGNED:  # as in a file that is mapped
            object.__setattr__(self, "numbers", self.numbers.clone())

    @classmethod
    @torch.no_grad()
    def of(cls, keys: Tensor) -> Codes:
        """Quantise keys, with a scale for each."""
        count, width = keys.shape
        numbers = torch.zeros(count, width + -width % _WIDTH, dtype=torch.int8)
        scales = torch.empty(count)
        errors = torch.empty(count)
        norms = torch.empty(count)
        smallest = torch.finfo(torch.bfloat16).tiny
        for start in range(0, count, _BLOCK):
            part = slice(start, start + _BLOCK)
            block = keys[part].double()
            # The scale is rounded before it is used, so that the error counts the rounding too.
            scale = (block.abs().amax(dim=1) / 127).clamp(min=smallest).bfloat16().double()
            code = (block / scale[:, None]).round().clamp(-127, 127)
            approximation = code * scale[:, None]
            loss = torch.linalg.vector_norm(block - approximation, dim=1)
            length = torch.linalg.vector_norm(approximation, dim=1)
            numbers[part, :width], scales[part] = code.to(torch.int8), scale.float()
            norms[part] = (length * (1 + 2.0**-20)).float()
            errors[part] = ((loss + ROUNDING * width * (length + loss)) * (1 + 2.0**-20)).float()
        return cls(numbers, scales, errors, norms)

    def products(self, queries: Tensor, columns: slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Approximate products of queries with keys, and bounds of their errors, `[B, n]`."""
        lengths = torch.linalg.vector_norm(queries, dim=1, keepdim=True)
        if len(queries) <= FEW and self._has_kernel:
            return self._by_bytes(queries, lengths, columns)
        width = queries.shape[1]
        numbers = self.numbers[columns, :width]
        rough = queries.new_empty(len(queries), len(numbers))
        buffer = queries.new_empty(_BLOCK, width)
        for block, out in zip(numbers.split(_BLOCK), rough.split(_BLOCK, 1), strict=True):
            torch.mm(queries, buffer[: len(block)].copy_(block).t(), out=out)
        return rough.mul_(self.scales[columns]), lengths * self.errors[columns]

    def _by_bytes(self, queries: Tensor, lengths: Tensor, columns: slice) -> tuple[Tensor, Tensor]:
        """The same by a kernel that reads bytes; queries and results are rounded to bfloat16."""
        queries = F.pad(queries, (0, self.numbers.shape[1] - queries.shape[1]))
        approximation = queries.bfloat16()
        shift = torch.linalg.vector_norm(queries - approximation, dim=1, keepdim=True)
        rough = torch._weight_int8pack_mm(
            approximation, self.numbers[columns], self.scales[columns].bfloat16()
        ).float()
        slack = torch.addcmul(lengths * self.errors[columns], shift, self.norms[columns])
        return rough, slack.addcmul_(rough.abs(), torch.tensor(_NARROW))

    def match(self, keys: Tensor) -> bool:
        """Whether these are codes of some keys, judged by a sample."""
        count, width = keys.shape
        lengths = {len(part) for part in (self.scales, self.errors, self.norms)}
        if lengths != {count} or self.numbers.shape != (count, width + -width % _WIDTH):
            return False
        sample = slice(None, None, max(1, count // _SAMPLED))
        approximation = self.numbers[sample, :width].double() * self.scales[sample, None].double()
        distances = torch.linalg.vector_norm(keys[sample].double() - approximation, dim=1)
        return bool((distances <= self.errors[sample]).all())

    @cached_property
    def _has_kernel(self) -> bool:
        """Whether the kernel, which is private to torch, exists and keeps its error bounds."""
        if not hasattr(torch, "_weight_int8pack_mm") or not len(self.numbers):
            return False
        part = slice(0, _PROBED)
        draw = torch.Generator().manual_seed(0)
        floats = self.numbers[part].float() * self.scales[part, None]
        for count in (1, FEW - 1):
            queries = torch.randn(count, floats.shape[1], generator=draw)
            lengths = torch.linalg.vector_norm(queries, dim=1, keepdim=True)
            try:
                rough, slack = self._by_bytes(queries, lengths, part)
                if not bool(((rough - queries @ floats.t()).abs() <= slack).all()):
                    return False
            except (RuntimeError, TypeError):  # a build with another kernel, or with none
                return False
        return True


_CODES: WeakKeyDictionary[BilinearScorer, tuple[tuple[int, object], Codes]] = WeakKeyDictionary()


def shared_codes(
    scorer: BilinearScorer, create: bool = True, make: Callable[[Tensor], Codes] = Codes.of
) -> Codes | None:
    """The codes of a scorer's keys, cached in this process, or None unless `create`.

    Writes to the keys invalidate the codes.
    """
    keys = scorer.keys().detach()
    state = keys.data_ptr(), writes_to(keys)
    cached_state, codes = _CODES.get(scorer, (None, None))
    if cached_state != state:  # two threads may both make them, without waiting
        codes = make(keys) if create else None
    if codes is not None:
        _CODES[scorer] = state, codes
    return codes


def forget_codes(scorer: BilinearScorer) -> None:
    """Drop the codes of a scorer after writes to its keys that torch does not count."""
    _CODES.pop(scorer, None)
