"""What the service answers at which address."""
