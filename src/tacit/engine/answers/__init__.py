"""From scores to answers that people and programs read, with reasons."""
