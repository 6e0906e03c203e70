"""Questions: the formula, the ways to write it, its plan, and its symbolic answers. No torch here."""
