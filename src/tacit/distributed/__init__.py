"""Several processes that share one table of entities by its rows."""
