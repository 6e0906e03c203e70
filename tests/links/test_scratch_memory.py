"""Memory that is used again by the thread it is of."""

from __future__ import annotations

import pickle
import threading

import torch

from tacit.links.scorer import ScratchBuffers


def test_a_room_is_the_same_memory_for_a_thread_and_none_of_another() -> None:
    rooms = ScratchBuffers()
    device = torch.device("cpu")
    found = list[int]()
    first = rooms("a", (4, 3), device)
    assert first.shape == (4, 3)
    assert (
        rooms("a", (2, 5), device).data_ptr()
        == first.data_ptr()
        != rooms("b", (4, 3), device).data_ptr()
    )
    other = threading.Thread(
        target=lambda: found.append(rooms("a", (4, 3), device).data_ptr()), daemon=True
    )
    other.start()
    other.join()
    assert found != [first.data_ptr()]
    assert pickle.loads(pickle.dumps(rooms))("a", (1,), device).data_ptr() != first.data_ptr()
