"""Link predictors: models, their training, and models trained elsewhere."""
