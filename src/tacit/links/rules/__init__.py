"""Logical rules as link predictors: mining them, scoring by them, and evidence from them."""
