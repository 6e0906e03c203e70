"""Runs: a graph with what was trained on it, kept in a folder."""
