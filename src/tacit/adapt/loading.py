"""Adapters in run folders, beside a link predictor that stays as it is."""

from __future__ import annotations

import json

from tacit.adapt.adapter import Adapter
from tacit.adapt.settings import AdaptSettings
from tacit.disk import from_json
from tacit.links.scorer import Scorer
from tacit.run.folder import ADAPTER, RunFolder


def save_adapter(run: RunFolder, adapter: Adapter, settings: AdaptSettings) -> None:
    """Write an adapter and the settings it was trained with; evaluations with another are marked."""
    run.outdate("adapt")
    trained_with = settings.to_dict()
    about = {"settings": json.dumps(trained_with)} | ({"by_id": "yes"} if adapter.by_id else {})
    run.write_tensors(ADAPTER, adapter.state_dict(), about)
    run.write_settings("adapt", trained_with)


def load_adapter(run: RunFolder, scorer: Scorer) -> tuple[Adapter, AdaptSettings]:
    """The adapter of a run, frozen, and the settings it was trained with."""
    with run.fits(ADAPTER, "adapt the run again"):
        about, tensors = run.contents(ADAPTER)
        settings = AdaptSettings.of(from_json(about["settings"]))
        adapter = Adapter(
            scorer, settings.condition, settings.layers, settings.hidden, by_id="by_id" in about, learns=settings.learn
        )
        adapter.load_state_dict(tensors)
    return adapter.requires_grad_(False).eval(), settings
