"""The Model Context Protocol: served runs as tools of agents, over stdio and HTTP."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from tacit.errors import SettingsError


def load_protocol() -> Any:
    """The module that speaks the protocol; a `SettingsError` names the extra it needs."""
    try:
        return import_module("tacit.server.mcp.protocol")
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"answering agents needs {error.name}; install it with: pip install 'tacit-kg[mcp]'"
        ) from None
