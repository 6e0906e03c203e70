"""The training of encoders."""
