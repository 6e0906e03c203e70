"""Settings as dataclass fields that declare default, help and range, and are checked.

The command line makes its options from the same fields, the documents their tables, and a run its
`settings.toml`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import Field, asdict, dataclass, field, fields
from operator import ge, gt, le, lt
from typing import Any, ClassVar, Self

from tacit.errors import SettingsError

# the words for the annotation of a setting in messages
KINDS = {
    "int": "a whole number",
    "float": "a finite number",
    "str": "a word",
    "bool": "true or false",
    "tuple[str, ...]": "a list of words",
}

_LIMITS = {
    "least": ("at least", ge),
    "above": ("above", gt),
    "most": ("at most", le),
    "below": ("below", lt),
}
# the largest integer that a run can store
LARGEST = 2**63 - 1


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
    off: str = "",
) -> Any:
    """A field of a settings class.

    It may be limited to `choices`, or to numbers that are at `least`, `above`, at `most` or `below`
    something. `read` converts the input into the stored value. A setting that `resumes` may differ
    between a run and its continuation, since it changes no weight; a `secret` one is never printed.
    One that can be False, although no switch, has a flag with the help `off` for that.
    """
    metadata = {
        "help": help,
        "choices": choices,
        "least": least,
        "above": above,
        "most": most,
        "below": below,
        "read": read,
        "resumes": resumes,
        "off": off,
    }
    return field(default=default, repr=not secret, metadata=metadata)


def device_setting() -> Any:
    """The field of a device, which is checked where it is used, on another machine maybe."""
    return setting("auto", "auto, cpu, cuda or cuda:N.", read=device_name, resumes=True)


def device_name(name: str) -> str:
    """The name of a supported device, checked."""
    if not re.fullmatch("auto|(cpu|cuda)(:[1-9]?[0-9])?", name):
        raise SettingsError(f"device is {name!r}; it must be auto, cpu, cuda or cuda:N", "device")
    return name


@dataclass(frozen=True)
class Settings:
    """A frozen dataclass of settings, checked field by field and then as a whole.

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

    Settings know which of them are explicit; `derive` computes the others from these.
    """

    noun: ClassVar[str] = ""
    explicit: ClassVar[Mapping[str, Any]]  # those that were passed; None only where it is a value
    # explicit settings that later changes overrode, with the names of these changes
    overruled: ClassVar[Mapping[str, tuple[Any, set[str]]]]

    def __new__(cls, *values: Any, **named: Any) -> Self:
        """Create settings that know which of them are explicit."""
        known = [declared.name for declared in fields(cls)]
        for name in sorted(set(named) - set(known)):
            from difflib import get_close_matches  # local, since it delays every command

            near = get_close_matches(name, known, n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"the settings are {', '.join(known)}"
            raise SettingsError(f"unknown {cls.noun} setting '{name}'; {hint}")
        created = super().__new__(cls)
        vars(created).update(explicit=dict.fromkeys([*known[: len(values)], *named]), overruled={})
        return created

    def __post_init__(self) -> None:
        values = {
            declared.name: _parsed(declared, getattr(self, declared.name))
            for declared in fields(self)
        }
        may_be_none = {declared.name for declared in fields(self) if _is_optional(declared)}
        explicit = {
            name: values[name]
            for name in self.explicit
            if values[name] is not None or name in may_be_none
        }
        vars(self).update(values | self.derive(explicit), explicit=explicit)
        self.check()

    @classmethod
    def derive(cls, explicit: Mapping[str, Any], *sizes: int) -> dict[str, Any]:
        """The explicit settings and those that follow from them, or from a graph's sizes."""
        return dict(explicit)

    def check(self) -> None:
        """Raise a `SettingsError` where settings contradict each other."""

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Settings from plain values, as a run folder stores them."""
        return cls(**values)

    def changed(self, **changes: Any) -> Self:
        """The same settings with changes, whose consequences override earlier settings.

        An overridden setting comes back if the change that overrode it is itself changed.

        >>> from tacit.engine.settings import EngineSettings
        >>> settings = EngineSettings(calibration="minmax").changed(search="continuous")
        >>> settings.calibration, settings.changed(search="beam").calibration
        ('sigmoid', 'minmax')
        """
        stated = {
            each.name: _parsed(each, changes[each.name])
            for each in fields(self)
            if each.name in changes
        }
        decided = self.derive(stated)
        usual = self.derive({})
        overruled: dict[str, tuple[Any, set[str]]] = {}
        restored: dict[str, Any] = {}
        for name, (value, by) in self.overruled.items():
            deciders = by.difference(changes) | self._deciders(name, stated)
            if name not in changes and deciders:
                overruled[name] = value, deciders
            elif name not in changes:
                restored[name] = value
        explicit = {**restored, **self.explicit}
        earlier = {
            name: value for name, value in explicit.items() if decided.get(name) == usual.get(name)
        }
        changed = type(self)(**earlier | changes)
        for name in explicit.keys() - earlier.keys() - changes.keys():
            overruled[name] = explicit[name], self._deciders(name, stated) or set(stated)
        vars(changed)["overruled"] = overruled
        return changed

    def _deciders(self, name: str, stated: Mapping[str, Any]) -> set[str]:
        """The stated settings that each decide another one."""
        usual = self.derive({}).get(name)
        return {by for by in stated if self.derive({by: stated[by]}).get(name) != usual}

    def decides(self, name: str) -> bool:
        """Whether a setting that is not explicit follows from others that are."""
        return name not in self.explicit and self.derive(self.explicit).get(name) != self.derive(
            {}
        ).get(name)

    def with_derived(self, *sizes: int) -> Self:
        """The same settings with all that `derive` chooses for these sizes."""
        return self.changed(**self.derive(self.explicit, *sizes))

    def to_dict(self) -> dict[str, Any]:
        """The settings as plain values, as settings files and results need them."""
        values = asdict(self)
        return {name: list(v) if isinstance(v, tuple) else v for name, v in values.items()}

    def resume_signature(self) -> dict[str, Any]:
        """The settings that a resumed run must share, as plain values."""
        free = {declared.name for declared in fields(self) if declared.metadata.get("resumes")}
        return {name: value for name, value in self.to_dict().items() if name not in free}

    def continued(self, **changes: Any) -> Self:
        """The settings to resume a run with, or a `SettingsError` if it would be another."""
        after = self.changed(**changes)
        earlier = self.resume_signature()
        for name, value in after.resume_signature().items():
            if value != earlier[name]:
                free = ", ".join(f"`{each}`" for each in self.to_dict() if each not in earlier)
                other = f"{name} is {value}, and the run has {earlier[name]}"
                limit = f" (only {free} may change)" if free else ""
                raise SettingsError(
                    f"{other}; leave it out to go on, or train anew with `force=True`{limit}", name
                )
        return after


def settings_of(kind: type[Settings]) -> list[Field[Any]]:
    """The fields that `setting` declared."""
    return [declared for declared in fields(kind) if "help" in declared.metadata]


def _is_optional(declared: Field[Any]) -> bool:
    return str(declared.type).endswith(" | None")


def _parsed(declared: Field[Any], value: Any) -> Any:
    """The stored value of an input, checked for type, choices and range."""
    if "help" not in declared.metadata:
        return value
    read = declared.metadata["read"]
    annotation = str(declared.type)
    kind = annotation.removesuffix(" | None")
    if value is None and (_is_optional(declared) or declared.default is None):  # or not settled yet
        return None
    try:
        stored = read(value) if read else tuple(value) if isinstance(value, list) else value
    except TypeError:  # nothing that people write could be taken apart so
        raise SettingsError(
            f"{declared.name} is {value!r}; it must be {KINDS[kind]}", declared.name
        ) from None
    requirement = _unmet(kind, declared.metadata, stored)
    if requirement:
        shown = repr(stored) if declared.repr else type(stored).__name__  # what is secret stays so
        raise SettingsError(f"{declared.name} is {shown}; it must be {requirement}", declared.name)
    return stored


def _unmet(kind: str, metadata: Mapping[str, Any], value: Any) -> str:
    """The requirement that a value does not meet, or ""."""
    if metadata["choices"] and value not in metadata["choices"]:
        return f"one of {', '.join(map(str, metadata['choices']))}"
    if not _is(kind, value):
        return KINDS[kind]
    limits = (
        {**metadata, "most": LARGEST}
        if metadata["most"] is None and isinstance(value, int)
        else metadata
    )
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
