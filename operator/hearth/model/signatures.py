"""Writes and reads the signature annotation of a child.

The signature covers the UID of the Stack and the kind, namespace and name of the object, so a copy is not valid on
another object. It also covers the inputs of deletions and their order: the resource, the incarnation, and a digest of
the required names. `hearth.plan.ownership.keyed_hash` signs and verifies.
"""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple, Protocol

from hearth.model import limits

PURPOSE = "child"
"""The purpose of a child's signature. Signatures for other purposes are not valid for a child."""
DIGEST_LENGTH = 20
"""Hexadecimal digits of the digest of `requires`: 80 bits, so that a second text with the same digest is infeasible."""


class Signatures(Protocol):
    """Verifies Hearth's signatures."""

    def is_signed(self, purpose: str, value: object, signature: str) -> bool:
        """Return whether Hearth's key made `signature` for that purpose and value."""


class Signer(Protocol):
    """Creates Hearth's signatures."""

    def sign(self, purpose: str, value: object) -> str:
        """Return the signature of `value` for that purpose; it contains no slash."""


class Facts(NamedTuple):
    """The facts that a valid signature proves of its object."""

    resource: str
    incarnation: int
    requires: str
    """The digest of the annotation `hearth.dev/requires`."""


def write(identity: str, *, resource: str, incarnation: int, requires: str, signer: Signer) -> str:
    """Encode the text of the annotation. identity: see `names.identity`; requires: the value of the annotation."""
    facts = f"{resource}/{incarnation}/{digest(requires)}"
    return f"{facts}/{signer.sign(PURPOSE, f'{identity}/{facts}')}"


def read(identity: str, text: str, *, signatures: Signatures) -> Facts | None:
    """Return the claim that the annotation proves for the object with that identity, or None if it proves nothing."""
    if len(text) > limits.SIGNATURE_LENGTH:
        return None
    facts, _, signature = text.rpartition("/")
    if not facts or not signatures.is_signed(PURPOSE, f"{identity}/{facts}", signature):
        return None
    return parse(facts)


def parse(facts: str) -> Facts:
    """Parse the facts of a text with a verified signature."""
    resource, incarnation, requires = facts.split("/")
    return Facts(resource=resource, incarnation=int(incarnation), requires=requires)


@functools.lru_cache(maxsize=4096)
def digest(requires: str) -> str:
    """Return the digest of `hearth.dev/requires`, "" if it is empty. Cached: objects of a resource share it."""
    return hashlib.sha256(requires.encode()).hexdigest()[:DIGEST_LENGTH] if requires else ""
