"""Questions: formulas, their syntaxes, plans and symbolic answers, without torch."""
