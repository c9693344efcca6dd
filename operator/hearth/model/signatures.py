"""The signature on a child: what it proves, how it is written and read.

It is bound to the Stack's UID and to kind, namespace and name of the one object, so that a copy proves nothing on another
object. With it stands what decides on deletions and their order: the resource, the incarnation, and a digest of what the
object requires. Must not know the key, nor how an object is read.
"""

from __future__ import annotations

import functools
import hashlib
from typing import NamedTuple, Protocol

from hearth.model import limits

PURPOSE = "child"
"""What is signed for anything else passes for no child."""
DIGEST_LENGTH = 20
"""Hexadecimal digits of the digest of `requires`: 80 bits, as nobody may find a second text with the same one."""


class Signatures(Protocol):
    """Tells our signatures from others."""

    def is_signed(self, purpose: str, value: object, signature: str) -> bool:
        """Whether `signature` was made by our key for that purpose and value."""


class Signer(Protocol):
    """Makes our signatures."""

    def sign(self, purpose: str, value: object) -> str:
        """The signature of `value` for that purpose; no slash is in it."""


class Facts(NamedTuple):
    """What a valid signature says of its object."""

    resource: str
    incarnation: int
    requires: str
    """The digest of the annotation `hearth.dev/requires`."""


def write(identity: str, *, resource: str, incarnation: int, requires: str, signer: Signer) -> str:
    """The text of the annotation. identity: see `names.identity`; requires: as the annotation has it."""
    facts = f"{resource}/{incarnation}/{digest(requires)}"
    return f"{facts}/{signer.sign(PURPOSE, f'{identity}/{facts}')}"


def read(identity: str, text: str, *, signatures: Signatures) -> Facts | None:
    """What the annotation proves of the object with that identity; None where that is nothing."""
    if len(text) > limits.SIGNATURE_LENGTH:
        return None
    facts, _, signature = text.rpartition("/")
    if not facts or not signatures.is_signed(PURPOSE, f"{identity}/{facts}", signature):
        return None
    return parse(facts)


def parse(facts: str) -> Facts:
    """The facts of a text that is known to be ours."""
    resource, incarnation, requires = facts.split("/")
    return Facts(resource=resource, incarnation=int(incarnation), requires=requires)


@functools.lru_cache(maxsize=4096)
def digest(requires: str) -> str:
    """Of the annotation `hearth.dev/requires`, "" where it is empty. Remembered: objects of a resource have it in common."""
    return hashlib.sha256(requires.encode()).hexdigest()[:DIGEST_LENGTH] if requires else ""
