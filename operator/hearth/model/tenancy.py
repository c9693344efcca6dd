"""Where the objects of a Stack may be: the tenancy mode of the operator, and the boundary of one Stack.

Only compares names. Must not know rights: the API server decides on those.
"""

from __future__ import annotations

import enum

from hearth.model import value_class
from hearth.model.kinds import ObjectRef

REASON = "NamespaceNotAllowed"
"""Reason in the status of a Stack or resource that its boundary denies."""
CORE_GROUP = ""


class Mode(enum.StrEnum):
    """What a Stack may do with the operator's own rights."""

    ISOLATED = "isolated"
    """Everything in the Stack's own namespace."""
    TRUSTED = "trusted"
    """Everything."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """The boundary of one Stack. Each of its objects must be inside."""

    namespace: str
    """The namespace of the Stack."""
    is_confined: bool
    """Whether the objects must be in the namespace of the Stack."""
    closed: str = ""
    """The namespace that is closed to every Stack: that of the operator. "" for none."""

    @property
    def stack_denial(self) -> str:
        """Return why the Stack may have no objects at all, or ""."""
        if not self.closed or self.namespace != self.closed:
            return ""
        return (
            f"the Stack is in namespace {self.closed}, which belongs to the operator and is closed to every Stack; "
            f"create it in another namespace"
        )

    def find_denial(self, ref: ObjectRef) -> str:
        """Return why the object must not be read or written for the Stack, or ""."""
        if self.closed and (ref.namespace == self.closed or is_namespace(ref, self.closed)):
            return f"is in namespace {self.closed}, which belongs to the operator and is closed to every Stack; use another namespace"
        if not self.is_confined or ref.namespace == self.namespace:
            return ""
        found = f"is in namespace {ref.namespace}" if ref.namespace else "is cluster-scoped"
        return (
            f"{found}, but a Stack may only have objects in its own namespace, {self.namespace}; "
            f"{self._find_way_out(ref)}, or let an administrator start the operator with --tenancy=trusted"
        )

    def _find_way_out(self, ref: ObjectRef) -> str:
        if not ref.namespace:
            return "remove the resource"
        return f"remove metadata.namespace, or create the Stack in namespace {ref.namespace}"


def is_namespace(ref: ObjectRef, name: str) -> bool:
    """Return whether the object is the namespace of that name."""
    return (ref.group, ref.kind, ref.name) == (CORE_GROUP, "Namespace", name)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Tenancy:
    """The tenancy of one operator."""

    mode: Mode = Mode.ISOLATED
    closed: str = ""
    """The namespace that is closed to every Stack, "" for none."""

    def find_boundary(self, namespace: str) -> Boundary:
        """Return the boundary of a Stack in that namespace."""
        return Boundary(namespace=namespace, is_confined=self.mode is Mode.ISOLATED, closed=self.closed)
