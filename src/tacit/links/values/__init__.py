"""Values of attributes that a graph lacks: predicted, with their uncertainty."""
