"""The bar: all figures on a terminal, nothing elsewhere."""

from __future__ import annotations

import io

from rich.console import Console

from tacit.links.progress import TrainingBar


def shown(terminal: bool, wanted: bool = True) -> str:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=terminal, width=160)
    with TrainingBar(100, 3, 100, wanted, console) as bar:
        bar.advance(50)
        bar.epoch(2, 1.25, 0.5)
        bar.advance(50)
    return screen.getvalue()


def test_a_terminal_shows_epoch_loss_mrr_and_rate() -> None:
    text = shown(terminal=True)
    for part in ("epoch 2/3", "epoch 3/3", "loss 1.2500", "valid MRR 0.5000", "facts/s"):
        assert part in text


def test_elsewhere_it_is_quiet() -> None:
    assert shown(terminal=False) == ""
    assert shown(terminal=True, wanted=False) == ""
