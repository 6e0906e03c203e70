"""The training of link predictors."""
