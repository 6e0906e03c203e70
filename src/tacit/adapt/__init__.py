"""Adaptation: a small trained re-calibration of a frozen link predictor."""
