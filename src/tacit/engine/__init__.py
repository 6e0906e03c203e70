"""Engines: from a plan and a scorer to ranked answers with reasons."""
