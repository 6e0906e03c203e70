"""The folder of a run: its files, locks and fingerprints, never half-written."""
