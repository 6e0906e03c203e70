"""Settings in one declarative form: a field says its default, what it does and what it may be, and is checked by that.

The command line makes its options from the same fields, the documents their tables, and a run its `settings.toml`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from operator import ge, gt, le, lt
from typing import Any, ClassVar, Self

from tacit.errors import SettingsError

# How each annotation of a setting reads where a value is of another type.
KINDS = {
    "int": "a whole number",
    "float": "a finite number",
    "str": "a word",
    "bool": "true or false",
    "tuple[str, ...]": "a list of words",
}

_LIMITS = {"least": ("at least", ge), "above": ("above", gt), "most": ("at most", le), "below": ("below", lt)}
LARGEST = 2**63 - 1  # the largest whole number that a run keeps: a larger one would make it unreadable


def setting(
    default: Any,
    help: str,
    *,
    choices: tuple[Any, ...] = (),
    least: float | None = None,
    above: float | None = None,
    most: float | None = None,
    below: float | None = None,
    read: Callable[[Any], Any] | None = None,
    resumes: bool = False,
    secret: bool = False,
) -> Any:
    """A field of a settings class.

    It may be limited to `choices`, or to numbers that are at `least`, `above`, at `most` or `below` something. `read`
    turns what people write into the value that is kept. One that `resumes` may differ between a run and its
    continuation, since it changes no weight; one that is `secret` is never printed.
    """
    about = {
        "help": help, "choices": choices, "least": least, "above": above, "most": most, "below": below, "read": read,
        "resumes": resumes,
    }  # fmt: skip
    return field(default=default, repr=not secret, metadata=about)


def device_setting() -> Any:
    """The field of a device; whether this machine has it is told where it is used, since settings may travel."""
    return setting("auto", "auto, cpu, cuda or cuda:N.", read=device_name, resumes=True)


def device_name(given: str) -> str:
    """The name of a device, if it is one: torch knows others, which nothing here was tried on, and counts to 127."""
    if not re.fullmatch("auto|(cpu|cuda)(:[1-9]?[0-9])?", given):
        raise SettingsError(f"device is {given!r}; it must be auto, cpu, cuda or cuda:N", "device")
    return given


@dataclass(frozen=True)
class Settings:
    """A frozen dataclass of settings, checked field by field and then as a whole when it is made.

    >>> @dataclass(frozen=True)
    ... class Baking(Settings):
    ...     noun = "baking"
    ...     oven: str = setting("gas", "What heats.", choices=("gas", "wood"))
    ...     minutes: int = setting(40, "How long.", least=1)
    >>> Baking(minutes=0)
    Traceback (most recent call last):
    tacit.errors.SettingsError: minutes is 0; it must be at least 1
    >>> Baking.of({"minute": 5})
    Traceback (most recent call last):
    tacit.errors.SettingsError: unknown baking setting 'minute'; did you mean 'minutes'?

    Settings know which of them were given; `completed` says what follows from these for the others.
    """

    noun: ClassVar[str] = ""
    given: ClassVar[Mapping[str, Any]]  # what each was made with; None only where it is a value

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Settings that know which of them were given."""
        known = [declared.name for declared in fields(cls)]
        for name in sorted(set(named) - set(known)):
            from difflib import get_close_matches  # only here: every command would wait for it

            near = get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"the settings are {', '.join(known)}"
            raise SettingsError(f"unknown {cls.noun} setting '{name}'; {hint}")
        made = super().__new__(cls)
        vars(made)["given"] = dict.fromkeys([*known[: len(values)], *named])
        return made

    def __post_init__(self) -> None:
        kept = {declared.name: _kept(declared, getattr(self, declared.name)) for declared in fields(self)}
        may_be_none = {declared.name for declared in fields(self) if _is_optional(declared)}
        given = {name: kept[name] for name in self.given if kept[name] is not None or name in may_be_none}
        vars(self).update(kept | self.completed(given), given=given)
        self.check()

    @classmethod
    def completed(cls, given: Mapping[str, Any], *sizes: int) -> dict[str, Any]:
        """The given settings and those that follow from them; where a graph is there, from its sizes as well."""
        return dict(given)

    def check(self) -> None:
        """Raise a `SettingsError` where settings contradict each other."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings from plain values, as a run folder keeps them."""
        return cls(**values)

    def changed(self, **changes: Any) -> Self:
        """The same settings with some changed: these, and what follows from them, go before what was given earlier."""
        stated = {each.name: _kept(each, changes[each.name]) for each in fields(self) if each.name in changes}
        decided, usual = self.completed(stated), self.completed({})
        earlier = {name: value for name, value in self.given.items() if decided.get(name) == usual.get(name)}
        return type(self)(**earlier | changes)

    def settled(self, *sizes: int) -> Self:
        """The same with all that `completed` chooses for a graph of these sizes, as if it had been given."""
        return self.changed(**self.completed(self.given, *sizes))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as settings files and results need them."""
        return asdict(self)

    def lasting(self) -> dict[str, Any]:
        """The settings that a run must be continued with, as plain values."""
        free = {declared.name for declared in fields(self) if declared.metadata.get("resumes")}
        return {name: value for name, value in self.to_dict().items() if name not in free}

    def continued(self, **changes: Any) -> Self:
        """The settings to go on with a run of these; a `SettingsError` where it would not be the same run."""
        after, earlier = self.changed(**changes), self.lasting()
        for name, value in after.lasting().items():
            if value != earlier[name]:
                free = ", ".join(each for each in self.to_dict() if each not in earlier)
                other = f"{name} is {value}, and the run has {earlier[name]}"
                raise SettingsError(f"{other}; leave it out to go on, or train anew (only {free} may change)", name)
        return after


def settings_of(kind: type[Settings]) -> list[Field[Any]]:
    """The fields that `setting` declared."""
    return [declared for declared in fields(kind) if "help" in declared.metadata]


def _is_optional(declared: Field[Any]) -> bool:
    return str(declared.type).endswith(" | None")


def _kept(declared: Field[Any], value: Any) -> Any:
    """The value that is kept of what was given; it must be of its field's type, one of its choices and in its range."""
    if "help" not in declared.metadata:
        return value
    read, annotation = declared.metadata["read"], str(declared.type)
    kind = annotation.removesuffix(" | None")
    if value is None and (_is_optional(declared) or declared.default is None):  # or not settled yet
        return None
    try:
        kept = read(value) if read else tuple(value) if isinstance(value, list) else value
    except TypeError:  # nothing that people write could be taken apart so
        raise SettingsError(f"{declared.name} is {value!r}; it must be {KINDS[kind]}", declared.name) from None
    wanted = _unmet(kind, declared.metadata, kept)
    if wanted:
        shown = repr(kept) if declared.repr else type(kept).__name__  # what is secret stays so
        raise SettingsError(f"{declared.name} is {shown}; it must be {wanted}", declared.name)
    return kept


def _unmet(kind: str, about: Mapping[str, Any], value: Any) -> str:
    """What a value must be and is not, or nothing."""
    if about["choices"] and value not in about["choices"]:
        return f"one of {', '.join(map(str, about['choices']))}"
    if not _is(kind, value):
        return KINDS[kind]
    limits = {**about, "most": LARGEST} if about["most"] is None and isinstance(value, int) else about
    for name, (words, holds) in _LIMITS.items():
        if limits[name] is not None and not holds(value, limits[name]):
            return f"{words} {limits[name]}" if limits[name] or name != "least" else "0 or more"
    return ""


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "bool"
    if kind == "tuple[str, ...]":
        return isinstance(value, tuple) and all(isinstance(word, str) for word in value)
    if kind == "float":
        return isinstance(value, int | float) and -sys.float_info.max <= value <= sys.float_info.max
    return isinstance(value, {"int": int, "str": str, "bool": bool}[kind])
