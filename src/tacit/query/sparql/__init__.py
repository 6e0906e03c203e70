"""Reads and writes questions in SPARQL."""
