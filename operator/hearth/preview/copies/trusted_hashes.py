"""Hashes and signatures without the operator's key: hashes have a key of their own, and signatures are believed.

The user of a preview may not read the key. A forged signature misleads a preview, and never the operator.
"""

from __future__ import annotations

import re
from typing import Any, Final

from hearth.plan.ownership.keyed_hash import KeyedHasher

KEY: Final = b"of previews, which store no hash"
"""No secret: no hash of a preview is written or shown."""
KEYED: Final = re.compile(r"k[0-9a-f]{8}:[0-9a-f]{32}")


class TrustedHashes(KeyedHasher):
    """The hash function of a preview."""

    __slots__ = ()

    def __init__(self) -> None:
        """Use the key of previews."""
        super().__init__(KEY)

    def is_signed(self, purpose: str, value: Any, signature: str) -> bool:  # noqa: ARG002 -- the port requires it
        """Return whether it looks like a signature of any operator."""
        return KEYED.fullmatch(signature) is not None

    def is_comparable(self, text: str) -> bool:
        """Return whether it looks like a hash or signature of any operator."""
        return KEYED.fullmatch(text) is not None
