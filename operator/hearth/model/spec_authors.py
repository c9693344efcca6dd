"""Writes and reads the annotation of a Stack that names the users who changed its spec, signed with the operator's key.

Only Stacks whose changes need a separate approver have it. The signature covers the namespace and name of the Stack and
its whole spec, so the annotation is not valid for another spec.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from hearth.model import limits
from hearth.model.signatures import Signatures, Signer

PURPOSE = "author"
"""The purpose of the signature. Signatures for other purposes are not valid for authors."""


def sign_authors(users: Sequence[str], raw: Mapping[str, Any], *, signer: Signer) -> str:
    """Return the text of the annotation for a Stack. users: who changed the spec since it was last settled."""
    signature = signer.sign(PURPOSE, _describe(users, raw["metadata"], raw["spec"]))
    return orjson.dumps({"users": list(users), "signature": signature}).decode()


def read_authors(
    text: object, metadata: Mapping[str, Any], spec: Mapping[str, Any], *, signatures: Signatures
) -> tuple[str, ...]:
    """Return the users that the annotation proves for a Stack with this spec; () if it proves nothing. Never raises.

    metadata: with the namespace and name of the Stack.
    """
    if not isinstance(text, str) or len(text) > limits.AUTHORS_LENGTH:
        return ()
    try:
        fields = orjson.loads(text)
        users, signature = fields["users"], fields["signature"]
        if not isinstance(users, list) or not all(isinstance(each, str) for each in (*users, signature)):
            return ()
        is_signed = signatures.is_signed(PURPOSE, _describe(users, metadata, spec), signature)
    except (KeyError, TypeError, ValueError, RecursionError):
        return ()
    return tuple(users) if is_signed else ()


def _describe(users: Sequence[str], metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> list[Any]:
    """Return the signed content."""
    return [metadata["namespace"], metadata["name"], list(users), spec]
