"""A product is the same to the bit on one thread and on two, so that no score depends on what else a machine does."""

from __future__ import annotations

import pytest
import torch

from tacit.links.precision import product


@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="other libraries sum up otherwise")
def test_threads_change_no_bit_of_a_product() -> None:
    before, generator = torch.get_num_threads(), torch.Generator().manual_seed(0)
    try:
        for rows in [*range(1, 41), 256, 500]:
            left, right = torch.randn(rows, 64, generator=generator), torch.randn(300, 64, generator=generator)
            given = torch.empty(rows, 300)
            torch.set_num_threads(1)
            alone = product(left, right.T)
            torch.set_num_threads(2)
            assert torch.equal(product(left, right.T), alone), rows
            assert product(left, right.T, out=given) is given
            assert torch.equal(given, alone)
            torch.testing.assert_close(alone, (left.double() @ right.T.double()).float(), rtol=1e-4, atol=1e-4)
    finally:
        torch.set_num_threads(before)
