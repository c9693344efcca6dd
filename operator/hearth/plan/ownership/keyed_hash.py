"""Keyed hashes of definitions, and signatures of values that the operator reads back later.

Equal values have equal hashes. Without the key, a hash reveals nothing about its value.
"""

from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import re
from typing import Any, Protocol

import orjson

ALGORITHM = b"keyed BLAKE2b-256/128 of canonical JSON, keyed by Stack, 3"
"""Part of every hash's prefix. Change it whenever the hash algorithm changes."""
ID_LENGTH = 8
"""Hexadecimal digits of a prefix. If two keys shared a prefix, a lost key would look like changed definitions."""
HASH_LENGTH = 32
"""Hexadecimal digits."""
DIGEST_SIZE = 32
"""Bytes. This size lets a digest serve as a key. A hash shows half of the digest."""
MINIMAL_KEY = 16
"""Bytes. A shorter key could be guessed from the hash of a known definition."""
WHOLE_FLOAT = re.compile(rb"\.0(?:[,}\]]|\Z)|e\+")
"""Matches a float without a fraction. A match within a string is harmless and only costs time."""


class HashFunction(Protocol):
    """A keyed hash of any JSON value, and signatures with the same key."""

    def hash(self, value: object) -> str:
        """Return the same text for the same value and key."""

    def is_comparable(self, text: str) -> bool:
        """Return whether `text` was made with this key and algorithm. If not, it has no meaning."""

    def of_stack(self, uid: str) -> HashFunction:
        """Return the hash function of one Stack; every other Stack has different hashes."""

    def sign(self, purpose: str, value: object) -> str:
        """Sign `value` for that purpose."""

    def is_signed(self, purpose: str, value: object, signature: str) -> bool:
        """Return whether `signature` was made with this key for that purpose and value."""


class KeyedHasher:
    """Keyed hashes and signatures with one key."""

    __slots__ = ("_key", "_prefix", "_root_key", "_signing_key")

    def __init__(self, key: bytes) -> None:
        if len(key) < MINIMAL_KEY:
            raise ValueError(
                f"the key for hashes needs at least {MINIMAL_KEY} bytes, found {len(key)}; create a new one"
            )
        self._key = self._root_key = shorten_key(key)
        self._prefix = f"k{digest(self._key, ALGORITHM)[:ID_LENGTH]}:"
        # Signatures have a separate key, because users choose the hashed values and a hash must never be valid as a
        # signature.
        self._signing_key = bytes.fromhex(digest(self._key, b"signatures"))

    def of_stack(self, uid: str) -> KeyedHasher:
        """Return the hasher of one Stack, also if this is the hasher of another one.

        Equal values of two Stacks have different hashes, so that one Stack reveals nothing about the other. The prefix
        stays the same, because hashes remain comparable while the key and the algorithm are the same.
        """
        made = copy.copy(self)
        made._key = bytes.fromhex(digest(self._root_key, canonical(["stack", uid])))  # noqa: SLF001 -- of its own class
        return made

    def hash(self, value: Any) -> str:
        """Hash any JSON value as `k1a2b3c4d:…`. The order of keys does not matter, nor does 1.0 instead of 1."""
        return self._prefix + digest(self._key, canonical(value))[:HASH_LENGTH]

    def sign(self, purpose: str, value: Any) -> str:
        """Sign any JSON value for one purpose. The signature is invalid for any other purpose."""
        return self._prefix + digest(self._signing_key, pack(purpose, value))[:HASH_LENGTH]

    def is_signed(self, purpose: str, value: Any, signature: str) -> bool:
        """Return whether `signature` is ours, for that purpose and value."""
        return hmac.compare_digest(self.sign(purpose, value).encode(), signature.encode(errors="replace"))

    def is_comparable(self, text: str) -> bool:
        """Return whether `text` was made with this key and algorithm. Other hashes cannot show a change."""
        return text.startswith(self._prefix) and len(text) == len(self._prefix) + HASH_LENGTH


def shorten_key(key: bytes) -> bytes:
    """Return the key, or its digest if it is too long, as in HMAC."""
    return key if len(key) <= hashlib.blake2b.MAX_KEY_SIZE else hashlib.blake2b(key).digest()


def digest(key: bytes, text: bytes) -> str:
    """Return the keyed digest of `text` as hexadecimal digits."""
    # BLAKE2 has a keyed mode (RFC 7693), which takes a third of the time of HMAC-SHA256 per object. A prepared hash
    # object would save another sixth, but take ten times the memory of its key in every Stack.
    return hashlib.blake2b(text, key=key, digest_size=DIGEST_SIZE).hexdigest()


def pack(purpose: str, value: Any) -> bytes:
    """Return the bytes to sign: a string as is, which is faster; any other value as JSON. The encoding is unambiguous.

    A string starts with a digit, and JSON with a bracket. The length shows where the purpose ends.
    """
    if isinstance(value, str):
        return f"{len(purpose)}:{purpose}{value}".encode(errors="surrogatepass")
    return canonical([purpose, value])


def canonical(value: Any) -> bytes:
    """Return canonical JSON, independent of the notation and storage of the value.

    The API server returns 1.0 as 1, so whole floats are written as integers.
    """
    text = orjson.dumps(value, default=as_json, option=orjson.OPT_SORT_KEYS)
    # Search for plain bytes first: that takes a tenth of the time of the pattern, and most definitions contain neither.
    # A search for one byte takes a hundredth of the time of a search for two.
    has_sign = (b"." in text and b".0" in text) or (b"+" in text and b"e+" in text)
    if has_sign and WHOLE_FLOAT.search(text):
        return orjson.dumps(with_integers(value), default=as_json, option=orjson.OPT_SORT_KEYS)
    return text


def with_integers(value: Any) -> Any:
    """Replace every float without a fraction by an integer, if it fits into 64 bits."""
    if isinstance(value, dict):
        return {key: with_integers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [with_integers(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def as_json(value: object) -> str:
    """Encode bytes in Base64, as Kubernetes does in JSON."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"cannot hash a {type(value).__name__}: it is not a JSON value")
