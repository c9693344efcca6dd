"""Kubernetes label selectors: parses them, matches labels and formats a query.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from hearth.model import limits, value_class
from hearth.model.errors import Mistake

WORDS = ("matchLabels", "matchExpressions")
REQUIREMENT_WORDS = ("key", "operator", "values")
KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class Operator(enum.StrEnum):
    """The operators to compare a label, as in the Kubernetes API."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class LabelRequirement:
    """The requirement on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()
    """Sorted; none for `Exists` and `DoesNotExist`."""

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement."""
        match self.operator:
            case Operator.IN:
                return labels.get(self.key) in self.values
            case Operator.NOT_IN:
                return labels.get(self.key) not in self.values
            case Operator.EXISTS:
                return self.key in labels
            case Operator.DOES_NOT_EXIST:
                return self.key not in labels
            case _:
                assert_never(self.operator)

    def __str__(self) -> str:
        """Return it in the syntax of a query."""
        match self.operator:
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case _:
                assert_never(self.operator)


@value_class.dataclass(frozen=True, slots=True)
class LabelSelector:
    """Requirements on labels. A selector without requirements matches all objects."""

    requirements: tuple[LabelRequirement, ...] = ()

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Return whether it selects an object with these labels."""
        return all(each.accepts(labels) for each in self.requirements)

    def __str__(self) -> str:
        """Return it in the syntax of a query; "" for every object."""
        return ",".join(map(str, self.requirements))


def find_mistakes(stated: Any, *, path: str) -> Iterator[Mistake]:
    """Find the mistakes in a selector whose values are known.

    The mistakes do not quote values, which may be sensitive.
    """
    if not isinstance(stated, Mapping):
        yield Mistake(path=path, message="must be a map with matchLabels, matchExpressions or both")
        return
    for word in stated:
        if word not in WORDS:
            yield Mistake(path=f"{path}.{word}", message=f"is not known; a selector has {' and '.join(WORDS)}")
    yield from _find_in_labels(stated.get("matchLabels"), path=f"{path}.matchLabels")
    found = stated.get("matchExpressions")
    if found is not None and not isinstance(found, list):
        yield Mistake(path=f"{path}.matchExpressions", message="must be a list")
        return
    for at, each in enumerate(found or ()):
        yield from _find_in_requirement(each, path=f"{path}.matchExpressions[{at}]")
    labels = stated.get("matchLabels")
    if len(found or ()) + (len(labels) if isinstance(labels, Mapping) else 0) > limits.SELECTOR_REQUIREMENTS:
        yield Mistake(path=path, message=f"has more than {limits.SELECTOR_REQUIREMENTS} requirements; remove some")


def _find_in_labels(labels: Any, *, path: str) -> Iterator[Mistake]:
    if labels is None:
        return
    if not isinstance(labels, Mapping):
        yield Mistake(path=path, message="must be a map of labels")
        return
    for key, value in labels.items():
        if not (isinstance(key, str) and KEY.fullmatch(key)):
            yield Mistake(path=path, message=f"has the key '{str(key)[:63]}', which is not a label")
        elif not (isinstance(value, str) and VALUE.fullmatch(value)):
            yield Mistake(path=f"{path}[{key}]", message="must be text that a label can have; put numbers in quotes")


def _find_in_requirement(stated: Any, *, path: str) -> Iterator[Mistake]:
    if not isinstance(stated, Mapping):
        yield Mistake(path=path, message="must be a map with key, operator and values")
        return
    for word in stated:
        if word not in REQUIREMENT_WORDS:
            yield Mistake(path=f"{path}.{word}", message="is not known; a requirement has key, operator and values")
    key, values = stated.get("key"), stated.get("values")
    if not (isinstance(key, str) and KEY.fullmatch(key)):
        yield Mistake(path=f"{path}.key", message="must be the key of a label")
    operator = stated.get("operator")
    if operator not in [each.value for each in Operator]:
        yield Mistake(path=f"{path}.operator", message=f"must be one of {', '.join(Operator)}")
        return
    if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        if values:
            yield Mistake(path=f"{path}.values", message=f"{operator} has no values; remove them")
    elif not isinstance(values, list) or not values:
        yield Mistake(path=f"{path}.values", message=f"{operator} needs a list of values")
    elif not all(isinstance(each, str) and VALUE.fullmatch(each) for each in values):
        yield Mistake(path=f"{path}.values", message="must be texts that a label can have; put numbers in quotes")


def write_labels(labels: Mapping[str, Any]) -> str:
    """Return the selector for objects with all of these labels, in the syntax of a query."""
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def parse(stated: Mapping[str, Any]) -> LabelSelector:
    """Return the selector of a valid map, see `find_mistakes`. Maps with the same meaning give equal selectors."""
    labels: Mapping[str, str] = stated.get("matchLabels") or {}
    found = {LabelRequirement(key=key, operator=Operator.IN, values=(value,)) for key, value in labels.items()}
    for each in stated.get("matchExpressions") or ():
        values = tuple(sorted(set(each.get("values") or ())))
        found.add(LabelRequirement(key=each["key"], operator=Operator(each["operator"]), values=values))
    return LabelSelector(tuple(sorted(found, key=str)))
