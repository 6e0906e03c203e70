"""Encoders: models that are trained to answer whole questions, beside a link predictor or without one."""
