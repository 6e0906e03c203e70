"""Queries of benchmarks: their shapes, how they are drawn, and the files they are kept in."""
