"""Calibrated scores of atoms."""
