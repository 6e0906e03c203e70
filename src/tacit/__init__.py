"""Tacit answers logical questions over knowledge graphs that are missing facts, and says why."""

__all__ = ["__version__"]

__version__ = "0.1.0"
