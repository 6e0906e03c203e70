"""Graph networks and message passing as encoders."""
