"""Evaluation: ranks, calibration, tables and figures."""
