"""Benchmark queries: their shapes, sampling, and files."""
