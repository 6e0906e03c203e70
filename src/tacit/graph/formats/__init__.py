"""Files of facts, read and written."""
