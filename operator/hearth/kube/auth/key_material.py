"""Keys and certificates that a tenant supplies: bounded by what they are, before OpenSSL uses them.

A key that OpenSSL loads in a millisecond may take minutes for one signature. Must not know where they come from.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Final

from hearth.model import limits

BEGIN: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----")
CERTIFICATE = b"CERTIFICATE"
CURVES = frozenset({"secp256r1", "secp384r1", "secp521r1"})
KINDS = f"RSA with up to {limits.CLUSTER_KEY_BITS} bits, ECDSA (P-256, P-384, P-521) or Ed25519"


def find_wrong_key(pem: bytes) -> str:
    """Return why a private key is not used; "" if it is."""
    if len(pem) > limits.CLUSTER_PEM_BYTES:
        return f"has more than {limits.CLUSTER_PEM_BYTES} bytes; use a key that is {KINDS}"
    if b"ENCRYPTED" in pem:
        return "is encrypted; store it without a pass phrase"
    # Imported here, since only kubeconfigs with certificates need this large library.
    from cryptography.hazmat.primitives import serialization

    try:
        # Without the validation, which takes as long as the key is large.
        found = serialization.load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True)
    except Exception:  # noqa: BLE001 -- its errors are of many classes, and may repeat parts of the key
        return "is not a private key that can be read; use one in PEM"
    return "" if is_usual(found) else f"is of another kind; use one that is {KINDS}"


def find_wrong_certificates(pem: bytes) -> str:
    """Return why a chain of certificates is not used; "" if it is."""
    if len(pem) > limits.CLUSTER_PEM_BYTES * limits.CLUSTER_CERTIFICATES:
        return f"has more than {limits.CLUSTER_PEM_BYTES * limits.CLUSTER_CERTIFICATES} bytes"
    found = list(split(pem))
    if len(found) > limits.CLUSTER_CERTIFICATES:
        return f"has {len(found)} PEM blocks, and at most {limits.CLUSTER_CERTIFICATES} are used; keep those it needs"
    if any(len(each) > limits.CLUSTER_PEM_BYTES for each in found):
        return f"has a PEM block of more than {limits.CLUSTER_PEM_BYTES} bytes"
    from cryptography import x509

    for each in found:
        if BEGIN.match(each) is None or CERTIFICATE not in each[:64]:
            return "has a PEM block that is no certificate; remove it"
        try:
            key = x509.load_pem_x509_certificate(each).public_key()
        except Exception:  # noqa: BLE001 -- its errors are of many classes
            return "has a certificate that cannot be read; use those of the cluster as they are"
        if not is_usual(key):
            return f"has a certificate whose key is of another kind; use one that is {KINDS}"
    return ""


def split(pem: bytes) -> Iterator[bytes]:
    """Yield the PEM blocks, each from its beginning."""
    begins = [found.start() for found in BEGIN.finditer(pem)]
    for begin, end in itertools.pairwise([*begins, len(pem)]):
        yield pem[begin:end]


def is_usual(key: object) -> bool:
    """Return whether a public or private key is one that API servers and their clients have."""
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

    if isinstance(key, rsa.RSAPrivateKey | rsa.RSAPublicKey):
        return key.key_size <= limits.CLUSTER_KEY_BITS
    if isinstance(key, ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey):
        return key.curve.name in CURVES
    return isinstance(key, ed25519.Ed25519PrivateKey | ed25519.Ed25519PublicKey)
