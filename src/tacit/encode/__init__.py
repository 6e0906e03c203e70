"""Encoders: models that are trained to answer whole questions."""
