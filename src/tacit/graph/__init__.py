"""Graphs: labels, integer facts, and the files they come from."""
