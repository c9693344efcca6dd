"""Watches every change of a fake cluster and records violations of invariants that must always hold.

Invariants of single steps are in `expectations`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from hearth.model import names
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support.checks import expectations, members, phases_page, secret_leaks
from support.server import fake_kinds


class Witness:
    """The created objects, and the violations."""

    def __init__(self) -> None:
        self._there: dict[str, Object] = {}
        """The existing children by UID."""
        self.made: Counter[tuple[str, ...]] = Counter()
        """Number of created objects by Stack, resource, incarnation and kind."""
        self.wrong: list[str] = []

    def on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """The server's watcher."""
        is_own = fake_kinds.owns_children(kind)
        if after is not None and (is_own or kind == fake_kinds.CONTROLLER_REVISION.kind):
            reported = (after.get("status"), after.get("data"), annotations_of(after))
            self.wrong += secret_leaks.find_leaks(f"{kind.name} {after['metadata']['uid']}", reported)
        if is_own:
            self._look_at_phase(before, after)
        elif kind != fake_kinds.CONTROLLER_REVISION.kind:
            self._look_at_child(before, after)

    def _look_at_phase(self, before: Object | None, after: Object | None) -> None:
        """Check that the phase may follow the previous one."""
        old, new = (phases_page.find(expectations.status_of(raw).get("phase")) for raw in (before, after))
        if new is not None and not phases_page.is_legal(old, new):
            self.wrong.append(f"{new} was written after {old}")

    def _look_at_child(self, before: Object | None, after: Object | None) -> None:
        """Check that no incarnation has two objects."""
        raw = after if after is not None else before
        if raw is None or names.LABEL_RESOURCE not in labels_of(raw):
            return
        if before is None:
            self.made[which(raw)] += 1
            if any(which(each) == which(raw) for each in self._there.values()):
                self.wrong.append(f"{'/'.join(which(raw)[:3])} has two objects at the same time")
        if after is None:
            self._there.pop(raw["metadata"]["uid"], None)
        else:
            self._there[raw["metadata"]["uid"]] = after


def labels_of(raw: Object) -> Mapping[str, Any]:
    """An object's labels."""
    return raw["metadata"].get("labels") or {}


def annotations_of(raw: Object) -> Mapping[str, Any]:
    """An object's annotations."""
    return raw["metadata"].get("annotations") or {}


def whose(raw: Object) -> tuple[str, str]:
    """The Stack and the resource that an object belongs to."""
    return labels_of(raw).get(names.LABEL_STACK_UID, ""), members.resource_of(raw)


def which(raw: Object) -> tuple[str, str, str, str]:
    """The Stack, resource, incarnation and kind of an object."""
    return (*whose(raw), annotations_of(raw).get(names.ANNOTATION_INCARNATION, "1"), raw["kind"])
