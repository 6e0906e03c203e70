"""What an engine knows of an encoder: whom to ask, and what to say of its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tacit.engine.reasoner import Reasoner
from tacit.errors import PlanError
from tacit.query.plan import Plan


@dataclass(frozen=True, eq=False)
class EncoderSearch:
    """An encoder to be asked: what it is called, how it was trained, and the reasoner that it makes."""

    name: str  # as it is printed
    trained: str  # in a line: model, recipe, steps, time
    reasoner: Callable[[float | None], Reasoner]  # by the GB that a step may use
    check: Callable[[Plan], None]  # raises a `PlanError` for what it cannot express

    @property
    def about(self) -> dict[str, Any]:
        """What decides its answers beside the weights, as plain data; no calibration does, and no adapter."""
        return {"adapted": False, "calibration": "none", "encoder": self.name, "encoding": self.trained}

    def check_shapes(self, plans: Mapping[str, Plan]) -> None:
        """Raise a `PlanError` that names the shapes which the encoder cannot express, before hours are spent."""
        wrong = {name: str(error) for name, plan in plans.items() if (error := self.refusal(plan)) is not None}
        if wrong:
            can = ",".join(name for name in plans if name not in wrong) or "none of them"
            why = "; ".join(dict.fromkeys(wrong.values()))
            raise PlanError(f"{self.name} cannot express {', '.join(wrong)} ({why}); shapes that it can: {can}")

    def refusal(self, plan: Plan) -> PlanError | None:
        """Why the encoder cannot express a plan; None where it can."""
        try:
            self.check(plan)
        except PlanError as error:
            return error
        return None
