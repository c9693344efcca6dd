"""Reports a conversion as text, JSON and comments: resources by state, and losses with their places."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any, Final, Literal

import orjson

from hearth.cli.importer.heat.heat_scope import HeatResource, NestedTemplate
from hearth.cli.importer.heat.heat_types import Loss
from hearth.model import value_class
from hearth.model.child import Object
from hearth.template.text import kubectl_yaml

COMMENT_LENGTH: Final = 64 * 1024
"""Characters of a value that a comment keeps."""


class Comment(str):
    """A key of a map that is written as a comment."""

    __slots__ = ()


State = Literal["converted", "with losses", "not converted"]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ReportedResource:
    """One resource of a template of Heat."""

    path: str
    type: str
    state: State
    losses: tuple[str, ...]


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class HeatReport:
    """All resources, including those in nested templates, and the other losses."""

    resources: tuple[ReportedResource, ...]
    losses: tuple[str, ...]
    """Losses outside of resources, a sentence each."""
    notes: tuple[str, ...]

    @property
    def is_complete(self) -> bool:
        """Return whether nothing is lost."""
        return not self.losses and all(each.state == "converted" for each in self.resources)

    def count(self, state: State) -> int:
        """Return how many resources are in a state."""
        return sum(each.state == state for each in self.resources)

    def summarize(self) -> str:
        """Return one sentence with all counts."""
        done = len(self.resources) - self.count("not converted")
        return f"{done} of {len(self.resources)} resources converted, {self.count('with losses')} of them with losses; {len(self.losses) or 'no'} other losses"

    def list_sentences(self) -> Iterator[str]:
        """Yield each loss."""
        for each in self.resources:
            called = f"{each.path} ({each.type})"
            if each.state == "not converted":
                yield f"{called} is not converted: {each.losses[0]}"
            else:
                yield from (f"{called}: {loss}" for loss in each.losses)
        yield from self.losses

    def write_json(self) -> str:
        """Return all as JSON on one line."""
        states: tuple[State, ...] = ("converted", "with losses", "not converted")
        made = {
            "resources": [
                {"path": each.path, "type": each.type, "state": each.state, "losses": each.losses}
                for each in self.resources
            ],
            "counts": {state: self.count(state) for state in states},
            "losses": self.losses,
            "notes": self.notes,
        }
        return orjson.dumps(made).decode()


def make_report(root: NestedTemplate, others: Iterable[str]) -> HeatReport:
    """Return the report on a template and its nested templates. others: losses outside of templates."""
    resources: list[ReportedResource] = []
    losses: list[str] = []
    notes: list[str] = []
    pending = [root]
    while pending:
        scope = pending.pop(0).scope
        path = "".join(f"{each}/" for each in scope.path)
        losses += [f"{path}{write_loss(each)}" for each in scope.losses]
        notes += [f"{path}{each}" for each in scope.notes]
        for name, resource in scope.resources.items():
            found = tuple(dict.fromkeys(write_loss(each) for each in resource.losses))
            state: State = "not converted" if resource.reason else "with losses" if found else "converted"
            reasons = (resource.reason,) if resource.reason else found
            resources.append(ReportedResource(path=f"{path}{name}", type=resource.type, state=state, losses=reasons))
            if resource.nested is not None and not resource.reason:
                pending.append(resource.nested)
    return HeatReport(
        resources=tuple(resources), losses=tuple(dict.fromkeys([*others, *losses])), notes=tuple(dict.fromkeys(notes))
    )


def write_loss(loss: Loss) -> str:
    """Return a loss as a sentence."""
    return f"{loss.place}: {loss.reason}"


# Comments in the Stack.


def describe(resource: HeatResource) -> Iterator[str]:
    """Yield the comments on a resource: its losses, with their values; the whole resource if it is not converted."""
    if resource.reason:
        stated = {resource.stated_name: resource.stated}
        yield f"{resource.type} is not converted: {resource.reason}\n{write_value(stated)}"
    else:
        yield from (f"{resource.name}: {text}" for text in dict.fromkeys(map(describe_loss, resource.losses)))


def describe_loss(loss: Loss) -> str:
    """Return a loss with its value."""
    if loss.value in (None, "", [], {}):
        return write_loss(loss)
    return f"{write_loss(loss)}\n{write_value({loss.place.rpartition('.')[2]: loss.value})}"


def write_value(value: Any) -> str:
    """Return a value as YAML, truncated if it is long."""
    text = kubectl_yaml.write(value).rstrip("\n")
    return (
        text
        if len(text) <= COMMENT_LENGTH
        else f"{text[:COMMENT_LENGTH]}\n… ({len(text) - COMMENT_LENGTH} more characters)"
    )


def strip(value: Any) -> Any:
    """Return a value without comments."""
    if isinstance(value, dict):
        return {key: strip(each) for key, each in value.items() if not isinstance(key, Comment)}
    return [strip(each) for each in value] if isinstance(value, list) else value


def write_plain(value: Any) -> str:
    """Return a value without comments as text."""
    return orjson.dumps(strip(value)).decode()


def write_stack(stack: Object) -> str:
    """Return a Stack as YAML, with its comments."""
    # The text cannot contain a digest of itself.
    mark = f"comment{hashlib.sha256(write_plain(stack).encode()).hexdigest()}"
    comments: list[str] = []

    def number(value: Any) -> Any:
        if isinstance(value, list):
            return [number(each) for each in value]
        if not isinstance(value, dict):
            return value
        made: Object = {}
        for key, each in value.items():
            # A map with only comments would be null: they stand before it.
            is_empty = isinstance(each, dict) and all(isinstance(inner, Comment) for inner in each)
            for text in (key,) if isinstance(key, Comment) else each if is_empty else ():
                made[f"{mark}.{len(comments)}"] = None
                comments.append(str(text))
            if not isinstance(key, Comment):
                made[key] = {} if is_empty else number(each)
        return made

    lines: list[str] = []
    for line in kubectl_yaml.write(number(stack)).split("\n"):
        start, _, position = line.partition(f"{mark}.")
        if position:
            text = kubectl_yaml.MISLEADING.sub(
                lambda found: ascii(found[0])[1:-1], comments[int(position.removesuffix(": null"))]
            )
            lines += [f"{start}# {each}".rstrip() for each in text.splitlines()]
        else:
            lines.append(line)
    return "\n".join(lines)
