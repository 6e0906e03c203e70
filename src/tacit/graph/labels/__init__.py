"""Labels, names and prefixes of entities and relations, and spelling suggestions."""
