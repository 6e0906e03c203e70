"""The Model Context Protocol: served runs as tools of agents, over stdio and HTTP."""
