"""Trackers that a training can be logged in, each a file."""
