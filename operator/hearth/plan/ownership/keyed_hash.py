"""Keyed hashes of definitions, and signatures of what is read back: equal for equal meaning, worthless without the key.

Must not know where the key is kept, nor what is hashed.
"""

from __future__ import annotations

import base64
import copy
import hmac
import re
from typing import Any, Protocol

import orjson

ALGORITHM = b"HMAC-SHA256/128 of canonical JSON, keyed by Stack, 2"
"""Part of every hash's prefix: whoever changes how hashes are made changes this too."""
ID_LENGTH = 8
"""Hexadecimal digits of a prefix; two keys with the same one would make a lost key look like changed definitions."""
HASH_LENGTH = 32
"""Hexadecimal digits."""
MINIMAL_KEY = 16
"""Bytes; with less the key itself could be guessed from a hash of a known definition."""
WHOLE_FLOAT = re.compile(rb"\.0(?:[,}\]]|\Z)|e\+")
"""Hints at a float without a fraction; may also be found in a text, which costs time and nothing else."""


class HashFunction(Protocol):
    """A keyed hash of any JSON value, and signatures with the same key."""

    def hash(self, value: object) -> str:
        """The same text for the same value and key."""

    def is_comparable(self, text: str) -> bool:
        """Whether `text` was made by this key and algorithm; if not it says nothing."""

    def of_stack(self, uid: str) -> HashFunction:
        """The same for one Stack, whose hashes are unlike those of any other."""

    def sign(self, purpose: str, value: object) -> str:
        """The signature of `value` for that purpose."""

    def is_signed(self, purpose: str, value: object, signature: str) -> bool:
        """Whether `signature` was made by this key for that purpose and value."""


class KeyedHasher:
    """Makes hashes with one key."""

    def __init__(self, key: bytes) -> None:
        if len(key) < MINIMAL_KEY:
            raise ValueError(f"the key for hashes needs at least {MINIMAL_KEY} bytes, found {len(key)}; make a new one")
        self._hashing = hmac.new(key, digestmod="sha256")
        self._prefix = f"k{digest(self._hashing, ALGORITHM)[:ID_LENGTH]}:"
        # A key of their own: what is hashed, users choose, and no hash of it may pass for a signature.
        self._signing = hmac.new(bytes.fromhex(digest(self._hashing, b"signatures")), digestmod="sha256")

    def of_stack(self, uid: str) -> KeyedHasher:
        """The hasher of one Stack: equal values of two Stacks have different hashes, so that nobody learns of one from the other.

        Its hashes carry the same prefix, since they are comparable as long as the key and the algorithm stay.
        """
        made = copy.copy(self)
        key = bytes.fromhex(digest(self._hashing, canonical(["stack", uid])))
        made._hashing = hmac.new(key, digestmod="sha256")  # noqa: SLF001 -- of its own class
        return made

    def hash(self, value: Any) -> str:
        """`k1a2b3c4d:…` for any JSON value; order of keys and 1.0 for 1 make no difference."""
        return self._prefix + digest(self._hashing, canonical(value))[:HASH_LENGTH]

    def sign(self, purpose: str, value: Any) -> str:
        """The signature of any JSON value, for one purpose: what is signed for another does not pass for it."""
        return self._prefix + digest(self._signing, pack(purpose, value))[:HASH_LENGTH]

    def is_signed(self, purpose: str, value: Any, signature: str) -> bool:
        """Whether `signature` is ours, for that purpose and value."""
        return hmac.compare_digest(self.sign(purpose, value).encode(), signature.encode(errors="replace"))

    def is_comparable(self, text: str) -> bool:
        """Whether `text` was made with this key and algorithm. Another one's hash says nothing about a change."""
        return text.startswith(self._prefix) and len(text) == len(self._prefix) + HASH_LENGTH


def digest(keyed: hmac.HMAC, text: bytes) -> str:
    """Return the keyed digest of `text` as hexadecimal digits; `keyed` holds the hashed key and stays as it is."""
    made = keyed.copy()
    made.update(text)
    return made.hexdigest()


def pack(purpose: str, value: Any) -> bytes:
    """The bytes that are signed: of a text itself, which is faster, of anything else JSON. No two inputs have the same bytes.

    A text has a digit in front, JSON a bracket, so neither passes for the other. The length tells where the purpose ends.
    """
    if isinstance(value, str):
        return f"{len(purpose)}:{purpose}{value}".encode(errors="surrogatepass")
    return canonical([purpose, value])


def canonical(value: Any) -> bytes:
    """JSON that is the same however the value was spelt or stored.

    The API server gives 1.0 back as 1, so whole floats are written as integers.
    """
    text = orjson.dumps(value, default=as_json, option=orjson.OPT_SORT_KEYS)
    # The plain searches come first since they cost a tenth of the pattern, and most definitions have neither.
    if (b".0" in text or b"e+" in text) and WHOLE_FLOAT.search(text):
        return orjson.dumps(with_integers(value), default=as_json, option=orjson.OPT_SORT_KEYS)
    return text


def with_integers(value: Any) -> Any:
    """`value` with every float that has no fraction as an integer, as far as 64 bits reach."""
    if isinstance(value, dict):
        return {key: with_integers(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [with_integers(inner) for inner in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return value


def as_json(value: object) -> str:
    """Bytes as Kubernetes writes them in JSON: base 64."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"cannot hash a {type(value).__name__}: it is no JSON value")
