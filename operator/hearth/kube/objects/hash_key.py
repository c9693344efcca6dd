"""The key of all keyed hashes: created once, stored in a Secret of the operator's namespace.

Must not know what is hashed with it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import ApiClient
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import NAMESPACE, SECRET

NAME = "hearth-hash-key"
FIELD = "key"
LENGTH = 32
"""Bytes; the length of the hash that uses it."""


class InvalidHashKey(errors.HearthError):
    """Error for a Secret without a valid key; an administrator must fix it."""


async def get_hash_key(client: ApiClient, namespace: str, *, entropy: Callable[[int], bytes]) -> bytes:
    """Return the key; create it and the namespace if missing. Raises InvalidHashKey.

    entropy: returns this number of random bytes.
    """
    key = await find_hash_key(client, namespace)
    if key is not None:
        return key
    made = entropy(LENGTH)
    if await create_secret(client, namespace, made):
        return made
    # Another process stored a key first. That key is valid, because objects may already have its hashes.
    key = await find_hash_key(client, namespace)
    if key is None:
        raise errors.Unreachable(f"secret/{NAME} in namespace {namespace} is created and deleted repeatedly; try again")
    return key


async def find_hash_key(client: ApiClient, namespace: str) -> bytes | None:
    """Return the stored key, or None if there is none."""
    secret = await client.send_existing("get", SECRET, api_requests.object_path(SECRET, namespace, NAME))
    return parse_key(secret, namespace) if secret is not None else None


def parse_key(secret: Object, namespace: str) -> bytes:
    """Return the key in the Secret."""
    data = secret.get("data")
    text = data.get(FIELD, "") if isinstance(data, dict) else ""
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError):
        key = b""
    if len(key) != LENGTH:
        raise InvalidHashKey(
            f"secret/{NAME} in namespace {namespace}: data.{FIELD} must be {LENGTH} bytes in base64, "
            f"found {len(key)}; restore it, or delete the Secret to create a new key"
        )
    return key


async def create_secret(client: ApiClient, namespace: str, key: bytes) -> bool:
    """Store a new key; return False if another process has stored one."""
    body: Object = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": NAME, "namespace": namespace, "labels": {"app.kubernetes.io/part-of": "hearth"}},
        # A different key under the same name would invalidate every hash.
        "immutable": True,
        "data": {FIELD: base64.b64encode(key).decode()},
    }
    code = await create(client, SECRET, body)
    if code == 404:
        namespace_body: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await create(client, NAMESPACE, namespace_body)
        code = await create(client, SECRET, body)
    return code == 201


async def create(client: ApiClient, kind: Kind, body: Object) -> int:
    """Return 201 if it was created, 409 if it exists already, 404 if its namespace is missing."""
    path = api_requests.collection_path(kind, body["metadata"].get("namespace", ""))
    try:
        await client.send("create", kind, path, body=body)
    except errors.ApiStatusError as refused:
        if not (refused.is_not_found or refused.is_conflict):
            raise
        return refused.code
    return 201
