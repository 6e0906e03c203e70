"""Questions in words, for people who write no formulas."""
