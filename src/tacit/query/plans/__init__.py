"""Plans of formulas, and the algebras that evaluate them over sets."""
