"""Plans: from a formula to what is to be computed for it, and the algebras over sets."""
