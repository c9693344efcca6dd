"""What the other Stacks of a tree say about an object that one of them does not want any more.

A Stack and all Stacks nested in it are one tree. An object that moves from one of them to another is handed over.
"""

from __future__ import annotations

from hearth.model import names, value_class
from hearth.model.child import Child
from hearth.plan.resource import replacement
from hearth.template.blueprint import StackIdentity

LOOK_AGAIN = 10.0
"""Seconds until a claim is looked up again even without an event."""
LOOK_SOON = 1.0
"""The same while another Stack reads its definition."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TreeClaim:
    """Why an obsolete object stays: another Stack of the tree names it, or may."""

    stack: str
    """`namespace/name`."""
    resource: str = ""
    """The resource of that Stack; "" if the Stack as a whole is not known well enough."""
    is_certain: bool = False
    is_foreign: bool = False
    """Whether another process works on the Stack, so that the object must be offered to it."""
    is_pending: bool = False
    """Whether the Stack has a newer definition that it will have read in a moment."""

    def explain(self) -> str:
        """Explain why the object stays, as text that follows its name."""
        what = f"resource {self.resource} of Stack {self.stack}" if self.resource else f"Stack {self.stack}"
        return f"is handed over to {what}" if self.is_certain else f"stays until {what} is known, which may name it"


def is_replaceable(child: Child, stack: StackIdentity) -> bool:
    """Return whether another object is as good: it holds nothing, and has a name that only its own resource gives."""
    name = names.child_name(
        stack=stack.name,
        stack_namespace=stack.namespace,
        stack_uid=stack.uid,
        resource=child.resource,
        incarnation=child.incarnation,
        namespace=child.namespace,
    )
    return child.name == name and child.kind.key in replacement.CREATE_FIRST_KINDS
