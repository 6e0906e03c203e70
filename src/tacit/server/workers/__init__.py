"""The processes that answer, and the queue in front of them."""
