"""The text syntax of questions."""
