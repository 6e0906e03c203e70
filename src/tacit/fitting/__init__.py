"""One training loop for everything that is trained."""
