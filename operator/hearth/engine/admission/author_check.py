"""Whether the author of a Stack may use the ServiceAccount that it names.

Otherwise the right to write Stacks would be the right of every ServiceAccount of the namespace.
"""

from __future__ import annotations

from typing import Protocol

from hearth.engine.admission.review import Author
from hearth.model import errors, value_class


class AccessReviews(Protocol):
    """Questions about the rights of other users."""

    async def may(self, author: Author, verb: str, resource: str, *, namespace: str, name: str = "") -> bool:
        """Return whether the user may do that in the core API group. Raises `ApiStatusError` or `Unreachable`."""


@value_class.dataclass(frozen=True, slots=True)
class AuthorCheck:
    """The check of one installation."""

    access: AccessReviews

    async def find_denial(self, author: Author, *, namespace: str, account: str) -> str:
        """Return why the author may not use that ServiceAccount, or "". A fault is a denial: no later check is made."""
        try:
            # Who may create Pods may run one as any ServiceAccount of the namespace.
            if await self.access.may(author, "impersonate", "serviceaccounts", namespace=namespace, name=account):
                return ""
            if await self.access.may(author, "create", "pods", namespace=namespace):
                return ""
        except (errors.ApiStatusError, errors.Unreachable):
            return f"spec.serviceAccountName: cannot check whether {author.name} may use {account}; try again"
        return (
            f"spec.serviceAccountName: user {author.name} may not use ServiceAccount {account}; this needs the verb "
            f"impersonate on it, or the right to create Pods in namespace {namespace}"
        )
