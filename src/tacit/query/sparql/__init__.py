"""Questions in SPARQL, read and written."""
