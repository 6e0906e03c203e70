"""The HTTP service, the SPARQL endpoint and the page."""
