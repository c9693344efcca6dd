"""Builds the HealthMark that `mark` and `unmark` create, and describes its status."""

from __future__ import annotations

import re
from typing import Final

from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import stack_view
from hearth.model import names, object_fields, value_class
from hearth.model.child import Object
from hearth.model.text.enumeration import enumerate_names

PREFIX_LENGTH: Final = 50
"""The API server adds five characters; a name has 63 at most in some of its uses."""
REJECTED: Final = frozenset(
    "StackNotFound ResourceNotFound TargetNotFound ObjectNotFound TooManyMarks ObjectTooNew NotNested OtherNamespace "
    "Denied".split()
)
"""Reasons of `Ready` for a mark that has no effect until a user acts."""
RESOURCE: Final = r"[a-z][a-zA-Z0-9]{0,39}(\[[a-z0-9-]{1,40}\])?"
PATH: Final = re.compile(rf"{RESOURCE}(/{RESOURCE}){{0,7}}")
MEMBER: Final = re.compile(rf"(0|[1-9][0-9]{{0,4}})(/{RESOURCE}){{0,7}}")
"""The index of a member of a group, and a path within it."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class MarkState:
    """Progress of a mark."""

    is_ready: bool = False
    is_rejected: bool = False
    is_resolved: bool = False
    message: str = ""

    @property
    def is_settled(self) -> bool:
        """Whether the mark will not change without an action, or its object is being replaced."""
        return self.is_rejected or self.is_resolved or self.is_ready


def find_refusal(stack: StackState, resource: str) -> str:
    """Return why no object of that resource can be marked, or "" if it can."""
    if stack.is_group and not MEMBER.fullmatch(resource):
        return f"{resource!r} is not a member of {stack.title}; specify the index of a member, like 3"
    if not stack.is_group and not PATH.fullmatch(resource):
        return f"{resource!r} is not the name of a resource; names are like web, workers[a] or cache/db"
    if stack.is_deleting:
        return f"{stack.title} is being deleted, so nothing is replaced"
    if stack.is_group and stack.is_observed:
        index, listed = resource.partition("/")[0], stack_view.list_members(stack)
        if index not in listed:
            return f"{stack.title} has no member {index}; it has {enumerate_names(list(listed)) or 'none'}"
    known = {} if stack.is_group else object_fields.mapping(stack.spec, "template", "resources")
    first = resource.partition("/")[0].partition("[")[0]
    is_current = not stack.is_rolled_back and stack.is_observed
    if known and is_current and first not in known:
        return f"{stack.title} has no resource {first!r}; resources: {', '.join(sorted(known))}"
    return ""


def make_mark(stack: StackState, resource: str, *, reason: str | None) -> Object:
    """Return the HealthMark to create; it is deleted with its Stack. reason: None removes a mark."""
    prefix = f"{stack.name}-{names.kebab(re.sub(r'[^a-zA-Z0-9]+', '-', resource).strip('-'))}"
    kind = stack.kind
    owner = {"apiVersion": kind.api_version, "kind": kind.name, "name": stack.name, "uid": stack.uid}
    spec: Object = {**names.write_owner(stack.owner_key), "resource": resource, "markUnhealthy": reason is not None}
    return {
        "apiVersion": f"{names.GROUP}/{names.VERSION}",
        "kind": "HealthMark",
        "metadata": {
            "generateName": f"{prefix[:PREFIX_LENGTH].rstrip('-.')}-",
            "namespace": stack.namespace,
            "ownerReferences": [owner],
        },
        "spec": spec | ({"reason": reason} if reason is not None else {}),
    }


def is_waiting(mark: Object, stack: StackState, resource: str) -> bool:
    """Return whether a HealthMark that marks this resource unhealthy is not handled yet."""
    spec = object_fields.mapping(mark, "spec")
    state = read_state(mark)
    is_open = not state.is_ready and not state.is_rejected
    is_marked = spec.get("resource") == resource and spec.get("markUnhealthy") is True
    return is_marked and is_open and stack.is_named_by(mark)


def describe(mark: Object) -> str:
    """Return a mark as text: `web is unhealthy: answers 500`."""
    spec = mark["spec"]
    if spec["markUnhealthy"]:
        return f"{spec['resource']} is unhealthy: {spec['reason']}"
    return f"{spec['resource']} is no longer marked"


def read_state(mark: Object | None) -> MarkState:
    """Return the state of a mark."""
    if mark is None:
        return MarkState(is_rejected=True, message="it was deleted")
    conditions = {each.get("type"): each for each in object_fields.entries(mark, "status", "conditions")}
    ready, resolved = conditions.get("Ready", {}), conditions.get("Resolved", {})
    reason = object_fields.text(ready, "reason")
    return MarkState(
        is_ready=ready.get("status") == "True",
        is_rejected=reason in REJECTED,
        is_resolved=resolved.get("status") == "True",
        message=f"{reason}: {object_fields.text(ready, 'message')}".rstrip(": "),
    )
