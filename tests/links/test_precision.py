"""A product is the same to the bit on one thread and on two."""

from __future__ import annotations

from unittest import mock

import pytest
import torch

from tacit.links import precision
from tacit.links.precision import even_product, product, steady_product, summation


def test_threads_change_no_bit_of_a_product() -> None:
    before = torch.get_num_threads()
    generator = torch.Generator().manual_seed(0)
    try:
        for rows in [*range(1, 41), 256, 500]:
            left = torch.randn(rows, 64, generator=generator)
            right = torch.randn(300, 64, generator=generator)
            buffer = torch.empty(rows, 300)
            torch.set_num_threads(1)
            alone = product(left, right.T)
            torch.set_num_threads(2)
            assert torch.equal(product(left, right.T), alone), rows
            assert product(left, right.T, out=buffer) is buffer
            assert torch.equal(buffer, alone)
            torch.testing.assert_close(
                alone, (left.double() @ right.T.double()).float(), rtol=1e-4, atol=1e-4
            )
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("width", [96, 200, 1000])
def test_a_number_of_few_rows_is_the_same_to_the_bit_whatever_stands_beside_it(width: int) -> None:
    before = torch.get_num_threads()
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(3, width, generator=generator)
    right = torch.randn(5000, width, generator=generator)
    right[4321] = right[7]
    try:
        whole = even_product(left, right)
        torch.testing.assert_close(
            whole, (left.double() @ right.T.double()).float(), rtol=1e-4, atol=1e-3
        )
        assert torch.equal(whole[:, 4321], whole[:, 7])
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert torch.equal(even_product(left, right, out=torch.empty(3, 5000)), whole)
            for row in range(3):
                assert torch.equal(even_product(left[row : row + 1], right), whole[row : row + 1])
            for some in (torch.tensor([7]), torch.tensor([7, 4999, 0]), torch.arange(1, 66)):
                assert torch.equal(even_product(left[:2], right[some]), whole[:2, some])
            assert torch.equal(even_product(left, right[11:2060]), whole[:, 11:2060])
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("odd", ["width", "address", "stride"])
def test_few_rows_with_a_table_that_lies_at_odd_places(odd: str) -> None:
    generator = torch.Generator().manual_seed(0)
    width = 190 if odd == "width" else 200
    room = torch.randn(301 * width * 2, generator=generator)
    table = room[1 : 1 + 300 * width] if odd == "address" else room[: 300 * width]
    right = room.view(-1, 2 * width)[:300, :width] if odd == "stride" else table.view(300, width)
    left = torch.randn(2, width, generator=generator)
    torch.testing.assert_close(even_product(left, right), left @ right.T)
    right[250] = right[8]
    found = even_product(left, right)
    assert torch.equal(found[:, 250], found[:, 8])


@pytest.mark.parametrize("width", [64, 200, 2000])
def test_few_rows_are_turned_where_a_table_is_read_faster_so(width: int) -> None:
    left = torch.randn(1, width)
    right = torch.randn(130, width)
    known = summation()
    with mock.patch.object(precision, "_of_few", wraps=precision._of_few) as of_few:
        torch.testing.assert_close(even_product(left, right), left @ right.T, rtol=1e-4, atol=1e-3)
    assert of_few.called == (known is not None and width in known.transposed_widths)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("width", [64, 200, 1000])
def test_a_number_is_the_same_to_the_bit_for_all_numbers_of_rows_columns_and_threads(
    width: int, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels change with each of the three, and where they do is no promise of a library."""
    if not known:
        monkeypatch.setattr(precision, "summation", lambda: None)
    before = torch.get_num_threads()
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(70, width, generator=generator)
    right = torch.randn(1024, width, generator=generator)
    whole = steady_product(left, right)
    torch.testing.assert_close(
        whole, (left.double() @ right.T.double()).float(), rtol=1e-4, atol=1e-3
    )
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            for rows in (1, 2, 3, 4, 5, 7, 8, 11, 12, 15, 16, 17, 24, 33, 48, 49, 64):
                for columns in (1, 64, 100, 192, 384, 576, 704, 1024):
                    part = steady_product(left[:rows], right[:columns])
                    assert torch.equal(part, whole[:rows, :columns]), (threads, rows, columns)
    finally:
        torch.set_num_threads(before)


def test_another_library_gives_the_same_rows_beside_few_others_and_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stand-in for libraries other than MKL, whose sums depend on the number of rows."""
    exact = torch.mm
    generator = torch.Generator().manual_seed(0)
    left = torch.randn(70, 200, generator=generator)
    right = torch.randn(130, 200, generator=generator)
    expected = left @ right.T

    def uneven(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        rounded = exact(a, b) * (1 + 1e-6 * (len(a) % 48))
        return rounded if out is None else out.copy_(rounded)

    monkeypatch.setattr(torch, "mm", uneven)
    summation.cache_clear()
    try:
        assert summation() is None
        for multiply in (
            lambda rows: product(rows, right.T),
            lambda rows: even_product(rows, right),
        ):
            whole = multiply(left)
            torch.testing.assert_close(whole, expected, rtol=1e-5, atol=1e-4)
            for rows in (1, 3, 4, 7, 12, 48, 49):
                assert torch.equal(multiply(left[:rows]), whole[:rows]), rows
        assert torch.equal(steady_product(left[:1], right), steady_product(left, right)[:1])
        buffer = torch.empty(70, 130)
        assert product(left, right.T, out=buffer) is buffer
        assert torch.equal(buffer, product(left, right.T))
    finally:
        summation.cache_clear()
