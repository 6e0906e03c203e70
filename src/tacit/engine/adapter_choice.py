"""Whether an engine uses its adapter, as its settings change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tacit.engine.atoms.calibration import Calibration
from tacit.engine.settings import EngineSettings


@dataclass(frozen=True)
class AdapterChoice:
    """An adapter, whether it is in use, and the settings that come and go with it."""

    adapter: Calibration | None
    used: bool
    enabled: bool = True  # whether it is used where it fits
    brought: Mapping[str, Any] = field(default_factory=dict)  # its settings, while it is left out
    # the settings changed since it was last taken or left out
    changed: frozenset[str] = frozenset()

    def after(
        self, settings: EngineSettings, adapted: bool | None, changes: Mapping[str, Any]
    ) -> tuple[AdapterChoice, EngineSettings]:
        """The choice after changes of settings, and the settings to which these apply."""
        enabled = self.enabled if adapted is None else adapted
        after = settings.changed(**changes)
        restored = {
            name: value
            for name, value in self.brought.items()
            if name not in changes and not after.decides(name)
            if adapted or name not in self.changed
        }
        # An adapter in use, or asked for, stays, so that another calibration beside it is refused.
        insists = (self.used or bool(adapted)) and "calibration" in changes
        preset = changes.get("preset") if self.used else after.preset
        adapter = self.adapter if enabled and not preset else None
        used = adapter is not None and (
            insists or after.changed(**restored).calibration == adapter.kind
        )
        if used == self.used:
            return replace(self, enabled=enabled, changed=self.changed.union(changes)), settings
        if used:
            taken = AdapterChoice(self.adapter, used, enabled, changed=frozenset(changes))
            return taken, settings.changed(**restored)
        defaults = {} if self.adapter is None else self.adapter.unadapted_defaults
        brought = {name: getattr(settings, name) for name in defaults}
        usual = {name: value for name, value in defaults.items() if name not in self.changed}
        left_out = AdapterChoice(self.adapter, used, enabled, brought)
        return left_out, settings.changed(**usual)
