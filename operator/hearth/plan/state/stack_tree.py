"""What planning asks about the tree: a Stack with all its nested Stacks. An object that moves within it is handed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from hearth.model import value_class
from hearth.model.child import Child

LOOK_AGAIN = 10.0
"""Seconds until a claim is looked up again without an event."""
LOOK_SOON = 1.0
"""The same, while another Stack is reading its definition."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TreeClaim:
    """Why an obsolete object stays: another Stack of the tree names it, or might name it."""

    stack: str
    """`namespace/name`."""
    resource: str = ""
    """The resource of that Stack, or "" if the Stack as a whole is not known well enough."""
    is_certain: bool = False
    is_foreign: bool = False
    """Whether another process works on the Stack, so that the object must be offered to it."""
    is_pending: bool = False
    """Whether the Stack is about to read a newer definition."""

    def explain(self) -> str:
        """Explain why the object stays, as text that follows its name."""
        what = f"resource {self.resource} of Stack {self.stack}" if self.resource else f"Stack {self.stack}"
        return f"is handed over to {what}" if self.is_certain else f"stays until {what} is known, which may name it"


FindContents: TypeAlias = Callable[[Child], str]
"""Returns the retained object that a Namespace contains or a CustomResourceDefinition defines; "" for none."""


def contain_nothing(_child: Child) -> str:
    """Return "": nothing contains a retained object."""
    return ""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class TreeQueries:
    """The questions about the other Stacks of a tree, instances included. By default, there are none."""

    find_claim: Callable[[Child], TreeClaim | None] = lambda _child: None
    """Finds the claim of another Stack of the tree on an object; None for none."""
    has_foreign: Callable[[], bool] = lambda: False
    """Whether another process works on a Stack of the tree."""
    find_contents: FindContents = contain_nothing
    """Finds the retained object of the tree that an object contains or defines."""
    explain_protection: Callable[[Child], str] = lambda _child: ""
    """Returns why a nested Stack must not be deleted, or "" if it may be deleted."""
    is_instance_kind: Callable[[str], bool] = lambda _key: False
    """Returns whether a StackDefinition makes a kind, by `Kind.group`."""
