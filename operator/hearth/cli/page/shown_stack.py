"""The view of Stacks as values for templates. All texts are cleaned; the templates escape them."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from hearth.cli.stack_views import ages, safe_text
from hearth.cli.stack_views.graph import layout, stack_graph
from hearth.cli.stack_views.graph.layout import Layout
from hearth.cli.stack_views.lists import revision_history, stack_list
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.cli.stack_views.tree.stack_view import RowState, StackView
from hearth.model import limits, names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.phases import Phase

SUMMARY: Final = re.compile(r"(\d{1,6})/(\d{1,6})")


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownStack:
    """A Stack or ResourceGroup, without its resources."""

    path: str
    """`stacks/prod/shop`."""
    title: str
    namespace: str
    state: RowState
    phase: str
    summary: str
    ready: int
    total: int
    """Numbers of ready resources and of all resources; 0 if unknown."""
    revision: int | None
    words: tuple[str, ...]
    """Facts to show in addition to the phase."""
    message: str
    created: str
    """RFC 3339; the browser shows the age."""
    is_nested: bool
    """Whether it belongs to another Stack."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownGraph:
    """A Stack with the picture of its resources."""

    stack: ShownStack
    view: StackView
    layout: Layout
    breakpoints: tuple[str, ...]
    """Where resources wait: `web/PreUpdate`."""


def make_word(kind: Kind) -> str:
    """Return the name of a kind in addresses: `stacks`, `webapps.platform.example`."""
    return kind.plural if kind.group == names.GROUP else f"{kind.plural}.{kind.group}"


def make_path(kind: Kind, namespace: str, name: str) -> str:
    """Return the address of the page of an object."""
    return f"{make_word(kind)}/{namespace}/{name}"


def describe(stack: StackState) -> ShownStack:
    """Describe a Stack."""
    summary = safe_text.one_line(stack.summary)
    progress = SUMMARY.fullmatch(summary)
    return ShownStack(
        path=make_path(stack.kind, stack.namespace, stack.name),
        title=safe_text.one_line(stack.argument),
        namespace=safe_text.one_line(stack.namespace),
        state=find_state(stack),
        phase=safe_text.one_line(stack.phase) or "New",
        summary=summary,
        ready=int(progress[1]) if progress else 0,
        total=int(progress[2]) if progress else 0,
        revision=stack.revision,
        words=tuple(stack_list.find_words(stack)),
        message=safe_text.clean(stack_list.redact(stack, stack.ready.message)) or "no operator has processed it yet",
        created=safe_text.one_line(stack.created),
        is_nested=names.LABEL_STACK_UID in object_fields.mapping(stack.raw, "metadata", "labels"),
    )


def find_state(stack: StackState) -> RowState:
    """Return the state of a Stack in the words of its resources."""
    if stack.is_deleting:
        return RowState.OBSOLETE
    if stack.is_ready:
        return RowState.READY
    if stack.is_stalled:
        return RowState.FAILED
    is_waiting = stack.condition("Stopped").is_true or stack.phase == Phase.UPDATE_STOPPED
    return RowState.STOPPED if is_waiting else RowState.PROGRESSING


def describe_graph(objects: StackObjects, *, expanded: Collection[int]) -> ShownGraph:
    """Describe a Stack with its resources. Takes half a second of CPU for some thousand."""
    view = stack_view.describe(objects)
    graph = stack_graph.describe(objects, view.rows, expanded=expanded)
    return ShownGraph(
        stack=describe(objects.stack),
        view=view,
        layout=layout.arrange(graph),
        breakpoints=tuple(safe_text.one_line(entry) for entry in objects.stack.breakpoints),
    )


def parse_layers(text: str, *, most: int = 100) -> frozenset[int]:
    """Return the layers in a text like `1.4`; parts that are no numbers are ignored."""
    return frozenset(
        int(each) for each in text.split(".")[:most] if each.isascii() and each.isdigit() and len(each) < 5
    )


def write_layers(layers: Collection[int]) -> str:
    """Return the text of layers."""
    return ".".join(map(str, sorted(layers)))


# The history of a Stack on the page: each revision with its author, its outcome and its changes. Pure.


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ShownRevision:
    """One stored revision."""

    number: int
    outcome: str
    """`active, completed`; "" for one that neither completed nor failed."""
    author: str
    commit: str
    age: str
    changes: tuple[tuple[str, str], ...]
    """Lines of the diff to the previous revision, with the names of their colors."""
    before: int | None
    """The revision that it is compared with; None for the first one, or if one of the two is unreadable."""


def describe_history(
    stack: StackState,
    stored: Mapping[int, Object],
    definitions: Mapping[int, Mapping[str, Any]],
    *,
    numbers: Sequence[int],
    now: float,
) -> tuple[ShownRevision, ...]:
    """Describe revisions, the newest first. definitions: the readable ones; numbers: the revisions to describe."""
    shown = []
    for number in numbers[: limits.PAGE_REVISIONS]:
        annotations = object_fields.mapping(stored[number], "metadata", "annotations")
        before = revision_history.find_previous(number, stored)
        is_comparable = before in definitions and number in definitions
        changes: tuple[tuple[str, str], ...] = ()
        if before is not None and is_comparable:
            titles = f"revision {before}", f"revision {number}"
            changes = tuple(revision_history.compare(definitions[before], definitions[number], titles=titles))
        created = object_fields.text(stored[number], "metadata", "creationTimestamp")
        shown.append(
            ShownRevision(
                number=number,
                outcome=revision_history.describe_state(number, stack)[0],
                author=safe_text.one_line(object_fields.text(annotations, names.ANNOTATION_AUTHOR)) or "unknown",
                commit=safe_text.one_line(object_fields.text(annotations, names.ANNOTATION_COMMIT)),
                age=ages.describe(created, now=now) if created else "",
                changes=changes[: limits.PAGE_EVENTS],
                before=before if is_comparable else None,
            )
        )
    return tuple(shown)
