"""Whether the account of a Stack may read an object that the operator has read with its own rights.

Only a port and its values. Must not know who asks the API server, nor when.
"""

from __future__ import annotations

import enum
from typing import Protocol

from hearth.model import value_class
from hearth.model.child import Child
from hearth.model.kinds import Kind
from hearth.model.tenancy import Boundary

FORBIDDEN = "Forbidden"
"""The reason of a resource whose object, or one that it reads, the account may not get."""


class Access(enum.Enum):
    """Whether an account may get an object. A closed set."""

    GRANTED = "granted"
    DENIED = "denied"
    UNKNOWN = "unknown"
    """The API server is asked; the Stack is enqueued with the answer."""


class ReadAccess(Protocol):
    """Answers of the API server about one Stack's account."""

    def expect(self, kind: Kind, namespace: str, boundary: Boundary) -> None:
        """Ask early about the objects of a kind that the Stack is about to have there; cheap if known."""

    def find(self, child: Child, boundary: Boundary) -> Access:
        """Return whether the account of that boundary may get the object. Asks if that is unknown; cheap."""

    def find_at(self, kind: Kind, namespace: str, name: str, boundary: Boundary) -> Access:
        """Return the same for an object that need not exist, or for a list (name: "") in a namespace, "" for all."""


class Unlimited:
    """The access of Stacks without an account: what their boundary allows, they may read."""

    def expect(self, kind: Kind, namespace: str, boundary: Boundary) -> None:
        """Ask nothing."""

    def find(self, child: Child, boundary: Boundary) -> Access:  # noqa: ARG002 -- implements the port
        """Return GRANTED."""
        return Access.GRANTED

    def find_at(self, kind: Kind, namespace: str, name: str, boundary: Boundary) -> Access:  # noqa: ARG002 -- likewise
        """Return GRANTED."""
        return Access.GRANTED


UNLIMITED = Unlimited()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """The account as which a Stack reads its objects."""

    boundary: Boundary
    access: ReadAccess = UNLIMITED

    @property
    def is_limited(self) -> bool:
        """Return whether the Stack has an account, so that not everything may be readable."""
        return bool(self.boundary.account)

    def expect(self, kind: Kind, namespace: str) -> None:
        """Ask early about the objects of a kind that the Stack is about to have there; cheap if known."""
        if self.boundary.account:
            self.access.expect(kind, namespace, self.boundary)

    def find(self, child: Child) -> Access:
        """Return whether the fields of the object may be shown and used. Asks if that is unknown; cheap."""
        return self.access.find(child, self.boundary) if self.boundary.account else Access.GRANTED

    def find_at(self, kind: Kind, namespace: str, name: str) -> Access:
        """Return whether an object, or a list (name: ""), may be read, whether it exists or not. Asks as `find` does."""
        return self.access.find_at(kind, namespace, name, self.boundary) if self.boundary.account else Access.GRANTED

    def explain(self, child: Child) -> str:
        """Return why no field of the object is shown or used, with the commands that change it."""
        return self.boundary.explain_read_denial(child.kind, child.ref)
