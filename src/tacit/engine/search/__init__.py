"""From a plan to scores: the ways to search."""
