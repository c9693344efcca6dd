"""The proofs of a release: checksums, provenance, and signatures of both. Reads no files but the key.

Sources: https://in-toto.io/Statement/v1, https://slsa.dev/spec/v1.0/provenance and
https://github.com/secure-systems-lab/dsse/blob/master/protocol.md.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from image_debian import Impossible

Json: TypeAlias = dict[str, Any]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
BUILD_TYPE = "https://hearth.dev/docs/verify.html#provenance"
BUILDER = "https://hearth.dev/make-release"
GENERATE_KEY = "openssl ecparam -name prime256v1 -genkey -noout -out key.pem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The commit that a release is built from."""

    repository: str
    """URL of the project."""
    commit: str
    time: int
    """Seconds since the epoch."""
    lock_digest: str
    """SHA-256 of requirements.lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """An artifact as provenance names it."""

    name: str
    digest: str
    """SHA-256, in hexadecimal."""


def hash_file(path: Path) -> Subject:
    """The file as a subject."""
    with path.open("rb") as file:
        return Subject(name=path.name, digest=hashlib.file_digest(file, "sha256").hexdigest())


def make_checksums(subjects: Iterable[Subject]) -> str:
    """A line for each file, as `sha256sum --check` reads it."""
    return "".join(f"{each.digest}  {each.name}\n" for each in sorted(subjects, key=lambda each: each.name))


def make_provenance(
    subjects: Iterable[Subject], source: Source, materials: Iterable[Json], parameters: Mapping[str, Any]
) -> Json:
    """Provenance of the artifacts. materials: components of bills of materials. It has no times, so that a rebuild is equal."""
    # The wheels of one package for several architectures have the same purl.
    packages = {(each["uri"], each["digest"]["sha256"]): each for each in map(describe_material, materials)}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": each.name, "digest": {"sha256": each.digest}} for each in subjects],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": BUILD_TYPE,
                "externalParameters": dict(parameters),
                "resolvedDependencies": [
                    {"uri": f"git+{source.repository}", "digest": {"gitCommit": source.commit}},
                    {"name": "requirements.lock", "digest": {"sha256": source.lock_digest}},
                    *(packages[key] for key in sorted(packages)),
                ],
            },
            "runDetails": {"builder": {"id": BUILDER}},
        },
    }


def describe_material(component: Json) -> Json:
    """A component of a bill of materials as a dependency of a build."""
    (digest,) = [each["content"] for each in component["hashes"] if each["alg"] == "SHA-256"]
    return {"uri": component["purl"], "digest": {"sha256": digest}}


def encode(document: Json) -> bytes:
    """A JSON file, the same for the same content."""
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def make_envelope(payload: bytes, key: ec.EllipticCurvePrivateKey) -> Json:
    """The DSSE envelope of a statement."""
    signature = sign(encode_before_signing(payload), key)
    return {
        "payloadType": PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": identify_key(key), "sig": base64.b64encode(signature).decode()}],
    }


def encode_before_signing(payload: bytes) -> bytes:
    """The bytes that the signature of an envelope covers: DSSE's pre-authentication encoding."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def identify_key(key: ec.EllipticCurvePrivateKey) -> str:
    """SHA-256 of the public key (DER), in hexadecimal."""
    form = serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    return hashlib.sha256(key.public_key().public_bytes(*form)).hexdigest()


def sign(content: bytes, key: ec.EllipticCurvePrivateKey) -> bytes:
    """The signature (ECDSA with SHA-256, DER); the same for the same content, so that signed releases are reproducible."""
    return key.sign(content, ec.ECDSA(hashes.SHA256(), deterministic_signing=True))


def read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key in a PEM file. Raises Impossible for anything but a key of ECDSA P-256 without a password."""
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except OSError as error:
        raise Impossible(f"cannot read the key {path}: {error.strerror}; pass the file of a private key") from error
    except TypeError as error:
        raise Impossible(f"the key {path} has a password: decrypt it first, with openssl pkey -in {path}") from error
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Impossible(f"{path} has no private key in PEM format: create one with {GENERATE_KEY}") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise Impossible(f"the key {path} is not of type ECDSA P-256: create one with {GENERATE_KEY}")
    return key
