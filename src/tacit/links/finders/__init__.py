"""What finds the best tails of rows without a score for every entity."""
