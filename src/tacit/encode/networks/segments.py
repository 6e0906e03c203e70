"""Facts sorted by one of their ends, in pieces that are short enough for one program of a kernel each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

PIECE = 64  # facts


class Segments(nn.Module):
    """Facts sorted by a key, cut into pieces of at most `PIECE` facts of one key, for kernels.

    The piece of a key that has one is written to the row of the key. Of a longer one the pieces are written to rows
    behind these, from which the row of the key is made: `wide` keys, whose rows `firsts[i] : firsts[i + 1]` they are.
    """

    heads: Tensor  # [E], or one of these two is what they are sorted by
    relations: Tensor
    tails: Tensor
    order: Tensor  # [E] the fact at each place
    keys: Tensor  # [P] of each piece
    starts: Tensor  # [P]
    stops: Tensor
    rows: Tensor  # [P] where a piece is written
    wide: Tensor  # [M]
    firsts: Tensor  # [M + 1]

    def __init__(self, keys: Tensor, num_keys: int, **others: Tensor) -> None:
        super().__init__()
        order = keys.argsort(stable=True)
        counts = torch.bincount(keys, minlength=num_keys)
        pieces = ((counts + PIECE - 1) // PIECE).clamp(min=1)
        key = torch.repeat_interleave(pieces)
        first = (pieces.cumsum(0) - pieces)[key]
        starts = (counts.cumsum(0) - counts)[key] + (torch.arange(len(key)) - first) * PIECE
        stops = torch.minimum(starts + PIECE, counts.cumsum(0)[key])
        several = pieces[key] > 1
        rows = torch.where(several, num_keys + several.cumsum(0) - 1, key)
        wide = (pieces > 1).nonzero()[:, 0]
        firsts = torch.cat([wide.new_zeros(1), pieces[wide].cumsum(0)])
        self.extra = int(firsts[-1])
        arrays = {"order": order, "keys": key, "starts": starts, "stops": stops, "rows": rows}
        arrays |= {"wide": wide, "firsts": firsts} | {name: array[order] for name, array in others.items()}
        for name, array in arrays.items():
            self.register_buffer(name, array.int(), persistent=False)
