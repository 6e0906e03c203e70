"""Questions in words, for people who write no formula."""
