"""Keys and certificates of tenants: what they cost is known before they are used."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from hearth.kube.auth import inline_kubeconfig


def write(key: object, *, password: bytes = b"") -> bytes:
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)  # type: ignore[attr-defined,no-any-return]  # of any class


def certify(key: ec.EllipticCurvePrivateKey) -> bytes:
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "east")]), datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


P256 = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(rsa.generate_private_key(65537, 2048), id="RSA"),
        pytest.param(P256, id="P-256"),
        pytest.param(ec.generate_private_key(ec.SECP521R1()), id="P-521"),
        pytest.param(ed25519.Ed25519PrivateKey.generate(), id="Ed25519"),
    ],
)
def test_usual_keys_are_used(key: object) -> None:
    """All that API servers accept."""
    assert inline_kubeconfig.find_wrong_key(write(key)) == ""


def make_large_key(bits: int) -> bytes:
    """An RSA key of odd numbers: OpenSSL signs with it, for as long as it is large."""
    p, q = (1 << bits // 2) - 1, (1 << bits // 2) - 3
    numbers = rsa.RSAPrivateNumbers(
        p=p, q=q, d=p * q - 2, dmp1=p - 2, dmq1=q - 2, iqmp=q - 2, public_numbers=rsa.RSAPublicNumbers(65537, p * q)
    )
    return write(numbers.private_key(unsafe_skip_rsa_key_validation=True))


@pytest.mark.parametrize(
    ("pem", "said"),
    [
        pytest.param(make_large_key(5120), "is of another kind; use one that is RSA with up to 4096 bits", id="RSA 5,120"),
        pytest.param(make_large_key(16384), "has more than 8192 bytes", id="RSA 16,384"),
        pytest.param(write(dsa.generate_private_key(2048)), "is of another kind", id="DSA"),
        pytest.param(write(ec.generate_private_key(ec.SECP256K1())), "is of another kind", id="another curve"),
        pytest.param(write(P256, password=b"x"), "is encrypted; store it without a pass phrase", id="encrypted"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is not a private key", id="nonsense"),
    ],
)  # fmt: skip
def test_other_keys_are_refused_at_once(pem: bytes, said: str) -> None:
    """And no message repeats them."""
    begun = time.process_time()

    found = inline_kubeconfig.find_wrong_key(pem)

    assert said in found
    assert "BEGIN" not in found
    assert time.process_time() - begun < 1.0


def test_certificates_are_read_before_they_are_used() -> None:
    """A chain and its authorities alike."""
    one = certify(P256)
    other = certify(ec.generate_private_key(ec.SECP256K1()))

    assert inline_kubeconfig.find_wrong_certificates(one * 3) == ""
    assert inline_kubeconfig.find_wrong_certificates(b"") == ""
    assert "has 33 PEM blocks" in inline_kubeconfig.find_wrong_certificates(one * 33)
    assert "whose key is of another kind" in inline_kubeconfig.find_wrong_certificates(one + other)
    assert "cannot be read" in inline_kubeconfig.find_wrong_certificates(one.replace(b"M", b"N"))
    assert "is no certificate" in inline_kubeconfig.find_wrong_certificates(one + write(P256))
