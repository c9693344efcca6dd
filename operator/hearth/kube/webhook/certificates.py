"""Certificates of the webhook: our own certificate authority, the serving certificate that it signs, and their Secret.

Any replica reads, creates and renews them, unless cert-manager fills the Secret. A write includes the version that was
read, so if two replicas renew at once, one of them fails and loads the certificates of the other.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import ipaddress
from collections.abc import Collection, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from hearth.kube.client import api_requests
from hearth.kube.client.api_requests import ApiClient
from hearth.model import errors, value_class
from hearth.model.child import Object
from hearth.model.well_known_kinds import SECRET

AUTHORITY_LIFETIME = timedelta(days=3650)
SERVING_LIFETIME = timedelta(days=90)
RENEW_AT = 2 / 3
"""Fraction of its lifetime after which a certificate is renewed: for a serving certificate, after 60 days."""
SPREAD = timedelta(minutes=10)
"""Minimum age of an authority that signs serving certificates. By then, every API server has learned to trust it."""
CLOCK_SKEW = timedelta(hours=1)
"""Tolerated difference between clocks."""
AUTHORITY_NAME = "hearth-webhook-ca"
UNUSABLE = (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm)
"""Errors of the library for invalid certificates or keys, or for a pair that does not match."""
FIELDS = {"authorities": "ca.crt", "authority_key": "ca.key", "certificate": "tls.crt", "key": "tls.key"}
"""The key of the Secret by field. If `ca.key` is missing, another program issues the certificates."""
CONFLICT = 409


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSet:
    """All certificates and keys, as PEM; empty where one is missing."""

    authorities: bytes = b""
    """The trusted certificates, newest first."""
    authority_key: bytes = field(default=b"", repr=False)
    """The key of the newest authority, or empty if another program issues the certificates."""
    certificate: bytes = b""
    """The serving certificate, with its chain."""
    key: bytes = field(default=b"", repr=False)


def renew(certificates: CertificateSet, *, hosts: Collection[str], now: datetime) -> CertificateSet:
    """Return the certificates to use from now on; the same object if nothing is due.

    hosts: DNS names and IP addresses under which the webhook is called.
    """
    made = _renew_authority(certificates, now=now)
    newest = _load_all(made.authorities)[0]
    is_trusted_everywhere = now - _get_issue_time(newest) >= SPREAD
    if is_valid(made, hosts=hosts, now=now) and not (
        is_trusted_everywhere and is_due(_load_all(made.certificate)[0], now=now, newest=newest)
    ):
        return made
    return _issue(made, hosts=sorted(set(hosts)), now=now)


def is_valid(certificates: CertificateSet, *, hosts: Collection[str], now: datetime) -> bool:
    """Return whether the serving certificate can be used now, is signed by an authority, and names all hosts."""
    try:
        certificate = _load_all(certificates.certificate)[0]
        key = serialization.load_pem_private_key(certificates.key, password=None)
        if _public_bytes(key.public_key()) != _public_bytes(certificate.public_key()):
            return False
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (*UNUSABLE, IndexError, x509.ExtensionNotFound):
        return False
    named = {*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress))}
    is_current = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc
    return (
        is_current
        and set(hosts) <= named
        and any(_signs(each, certificate) for each in _load_all(certificates.authorities))
    )


def is_due(certificate: x509.Certificate, *, now: datetime, newest: x509.Certificate) -> bool:
    """Return whether to renew a valid serving certificate: it is old, or an earlier authority signed it."""
    return _is_old(certificate, now=now) or not _signs(newest, certificate)


def find_expiration(certificates: CertificateSet) -> datetime | None:
    """Return when the serving certificate expires, or None if there is none."""
    try:
        return _load_all(certificates.certificate)[0].not_valid_after_utc
    except (ValueError, IndexError):
        return None


def _renew_authority(certificates: CertificateSet, *, now: datetime) -> CertificateSet:
    """Put a new authority before the known ones if the newest is old, or unusable."""
    known = [each for each in _load_all_or_none(certificates.authorities) if each.not_valid_after_utc > now]
    if known and _is_usable(known[0], certificates.authority_key) and not _is_old(known[0], now=now):
        return certificates
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, AUTHORITY_NAME)])
    builder = _start(name, name, key.public_key(), lifetime=AUTHORITY_LIFETIME, now=now)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(is_authority=True), critical=True)
    authority = builder.sign(key, hashes.SHA256())
    # Earlier authorities stay trusted, because other replicas serve their certificates until they read the new one.
    return dataclasses.replace(certificates, authorities=_write([authority, *known]), authority_key=_write_key(key))


def _issue(certificates: CertificateSet, *, hosts: Sequence[str], now: datetime) -> CertificateSet:
    """Sign a new serving certificate by the newest authority."""
    authority = _load_all(certificates.authorities)[0]
    signer = _load_key(certificates.authority_key)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "hearth-webhook")])
    builder = _start(subject, authority.subject, key.public_key(), lifetime=SERVING_LIFETIME, now=now)
    builder = builder.add_extension(x509.SubjectAlternativeName([_to_name(host) for host in hosts]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(is_authority=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    certificate = builder.add_extension(issuer_key, critical=False).sign(signer, hashes.SHA256())
    return dataclasses.replace(certificates, certificate=_write([certificate]), key=_write_key(key))


def _start(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, lifetime: timedelta, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + lifetime)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _get_issue_time(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_before_utc + CLOCK_SKEW


def _is_old(certificate: x509.Certificate, *, now: datetime) -> bool:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return now >= begin + RENEW_AT * (end - begin)


def _is_usable(authority: x509.Certificate, key: bytes) -> bool:
    try:
        return _public_bytes(_load_key(key).public_key()) == _public_bytes(authority.public_key())
    except UNUSABLE:
        return False


def _signs(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except UNUSABLE:
        return False
    return True


def _to_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _load_all(pem: bytes) -> list[x509.Certificate]:
    return x509.load_pem_x509_certificates(pem)


def _load_all_or_none(pem: bytes) -> list[x509.Certificate]:
    try:
        return _load_all(pem)
    except ValueError:
        return []


def _load_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = serialization.load_pem_private_key(pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise TypeError("not an elliptic curve key")
    return key


def _public_bytes(key: object) -> bytes:
    wanted = serialization.PublicFormat.SubjectPublicKeyInfo
    written: bytes = key.public_bytes(serialization.Encoding.DER, wanted)  # type: ignore[attr-defined]  # any kind of key
    return written


def _write(certificates: Sequence[x509.Certificate]) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def _write_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSecret:
    """The Secret with that name in the operator's namespace."""

    client: ApiClient
    namespace: str
    name: str

    async def load(self, *, hosts: Collection[str], now: datetime) -> CertificateSet | None:
        """Return the certificates to use, renewed if due; None while another program has not issued them yet.

        Raises `ApiStatusError` with 409 if another replica renewed them first or the namespace is missing: load again.
        """
        raw = await self.client.send_existing("get", SECRET, self._path)
        found = parse_secret(raw)
        if raw is not None and is_issued_elsewhere(raw, found):
            return found if found.certificate and found.key else None
        renewed = renew(found, hosts=hosts, now=now)
        if renewed is found:
            return found
        if raw is None:
            if await self.client.create_if_possible(SECRET, self._make(renewed)) != api_requests.CREATED:
                raise errors.ApiStatusError(code=CONFLICT, status=None)
        else:
            body = {"metadata": {"resourceVersion": raw["metadata"]["resourceVersion"]}, "data": write_data(renewed)}
            await self.client.send("patch", SECRET, self._path, body=body)
        return renewed

    @property
    def _path(self) -> str:
        return api_requests.object_path(SECRET, self.namespace, self.name)

    def _make(self, made: CertificateSet) -> Object:
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {
                "name": self.name,
                "namespace": self.namespace,
                "labels": {"app.kubernetes.io/part-of": "hearth"},
            },
            "data": write_data(made),
        }


def is_issued_elsewhere(raw: Object, certificates: CertificateSet) -> bool:
    """Return whether another program fills the Secret: cert-manager, or an administrator."""
    annotations = raw["metadata"].get("annotations") or {}
    is_cert_manager = any(key.startswith("cert-manager.io/") for key in annotations)
    return is_cert_manager or bool(certificates.certificate and not certificates.authority_key)


def parse_secret(raw: Object | None) -> CertificateSet:
    """Return the certificates in a Secret. Values that are not base64 count as missing."""
    data: Any = (raw or {}).get("data")
    known = data if isinstance(data, dict) else {}
    return CertificateSet(**{part: decode_value(known.get(key)) for part, key in FIELDS.items()})


def decode_value(text: Any) -> bytes:
    """Decode a value of a Secret. Returns an empty result if it is missing or invalid."""
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        return b""


def write_data(made: CertificateSet) -> dict[str, str]:
    """Return the data of the Secret."""
    return {key: base64.b64encode(getattr(made, part)).decode() for part, key in FIELDS.items()}
