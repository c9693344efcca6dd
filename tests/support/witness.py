"""Sees every change of a fake cluster, and notes what must never happen at any moment, whatever is going on.

Must not know of steps or stories.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from hearth.model import names, phases
from hearth.model.child import Object
from hearth.model.kinds import Kind
from support import expectations, fake_kinds, silence, verification
from support.traffic import Traffic


class Witness:
    """What was made, and what was wrong."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._there: dict[str, Object] = {}
        """By UID the children that exist."""
        self._stacks: dict[str, Object] = {}
        """By UID the Stacks as they are, or were last."""
        self.made: Counter[tuple[str, ...]] = Counter()
        """How many objects were made, by Stack, resource, incarnation and kind."""
        self.wrong: list[str] = []

    def on_change(self, kind: Kind, before: Object | None, after: Object | None) -> None:
        """The server's watcher."""
        if after is not None and kind in (fake_kinds.STACK.kind, fake_kinds.CONTROLLER_REVISION.kind):
            told = (after.get("status"), after.get("data"), annotations_of(after))
            self.wrong += silence.find_leaks(f"{kind.name} {after['metadata']['uid']}", told)
        if kind == fake_kinds.STACK.kind:
            self._look_at_phase(before, after)
        elif kind != fake_kinds.CONTROLLER_REVISION.kind:
            self._look_at_child(before, after)

    def _look_at_phase(self, before: Object | None, after: Object | None) -> None:
        """Every phase may follow the one before."""
        if after is not None:
            self._stacks[after["metadata"]["uid"]] = after
        old, new = (phases.find(expectations.status_of(raw).get("phase")) for raw in (before, after))
        if new is not None and not phases.is_legal(old, new):
            self.wrong.append(f"{new} was written after {old}")

    def _look_at_child(self, before: Object | None, after: Object | None) -> None:
        """No incarnation has two objects, and nothing goes before what depends on it."""
        raw = after if after is not None else before
        if raw is None or names.LABEL_RESOURCE not in labels_of(raw):
            return
        if before is None:
            self.made[which(raw)] += 1
            if any(which(each) == which(raw) for each in self._there.values()):
                self.wrong.append(f"{'/'.join(which(raw)[:3])} has two objects at the same time")
        if self._is_deleted_now(before, after):
            self._look_at_dependents(raw)
        if after is None:
            self._there.pop(raw["metadata"]["uid"], None)
        else:
            self._there[raw["metadata"]["uid"]] = after

    def _is_deleted_now(self, before: Object | None, after: Object | None) -> bool:
        """Whether this change is a deletion by an operator."""
        acting = self._traffic.acting
        if before is None or acting is None or acting.verb != "delete":
            return False
        return "deletionTimestamp" not in before["metadata"] and (
            after is None or "deletionTimestamp" in after["metadata"]
        )

    def _look_at_dependents(self, raw: Object) -> None:
        """Nobody else of the Stack was evaluated against what is being deleted."""
        _, name, number, _ = which(raw)
        is_standing = any(whose(each) == whose(raw) and which(each) != which(raw) for each in self._there.values())
        if is_standing or self._goes_first(raw):
            # Another object of the resource stands for it, or the user wants it so.
            return
        for each in self._there.values():
            required = annotations_of(each).get(names.ANNOTATION_REQUIRES, "").split(",")
            is_dependent = f"{name}/{number}" in required and whose(each) != whose(raw)
            if whose(each)[0] == whose(raw)[0] and is_dependent and not self._has_moved_over(each, name):
                self.wrong.append(f"{name} was deleted before {whose(each)[1]}, which requires it")

    def _goes_first(self, raw: Object) -> bool:
        """Whether the Stack wants that resource's object deleted before the next is made."""
        return (self._find_wanted(raw).get("updatePolicy") or {}).get("replace") == "DeleteFirst"

    def _has_moved_over(self, raw: Object, name: str) -> bool:
        """Whether an object is what the Stack wants now without that other resource, whatever its record says still."""
        wanted = self._find_wanted(raw)
        if not wanted or re.search(rf"\b{name}\b", json.dumps(wanted)):
            return False
        stack = self._stacks[whose(raw)[0]]
        present = {whose(each)[1]: each for each in self._there.values() if whose(each)[0] == whose(raw)[0]}
        manifest = verification.make_scope(stack["spec"], stack, present).evaluate(wanted["manifest"])
        return not any(verification.find_differences(manifest, raw, ""))

    def _find_wanted(self, raw: Object) -> Mapping[str, Any]:
        """What the template in the Stack's spec says of that object's resource; nothing where the Stack is deleted."""
        uid, name = whose(raw)
        stack = self._stacks.get(uid)
        if stack is None or "deletionTimestamp" in stack["metadata"]:
            return {}
        resources = (stack["spec"].get("template") or {}).get("resources") or {}
        found: Mapping[str, Any] = resources.get(name) or {}
        return found


def labels_of(raw: Object) -> Mapping[str, Any]:
    """An object's labels."""
    return raw["metadata"].get("labels") or {}


def annotations_of(raw: Object) -> Mapping[str, Any]:
    """An object's annotations."""
    return raw["metadata"].get("annotations") or {}


def whose(raw: Object) -> tuple[str, str]:
    """The Stack and the resource that an object stands for."""
    found = labels_of(raw)
    return found.get(names.LABEL_STACK_UID, ""), found.get(names.LABEL_RESOURCE, "")


def which(raw: Object) -> tuple[str, str, str, str]:
    """The Stack, the resource and the incarnation that an object stands for, and its kind."""
    return (*whose(raw), annotations_of(raw).get(names.ANNOTATION_INCARNATION, "1"), raw["kind"])
