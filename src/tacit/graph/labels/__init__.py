"""What entities and relations are called: labels, names, prefixes, and what was meant by what somebody typed."""
