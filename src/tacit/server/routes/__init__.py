"""The routes of the service and their replies."""
