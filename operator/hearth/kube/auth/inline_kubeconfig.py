"""Parses a kubeconfig that a tenant supplies. Accepts only inline tokens and certificates.

Every field is hostile input. The parser never reads a file, runs a program, resolves a name, or repeats a credential in
a message.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
import itertools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, TypeGuard

import orjson
import yaml
import yarl

from hearth.kube.auth import foreign_servers
from hearth.kube.auth.credentials import Credentials
from hearth.model import errors, limits, value_class
from hearth.template.text import kubectl_yaml

CONFIG_FIELDS = frozenset(
    {"apiVersion", "kind", "clusters", "contexts", "users", "current-context", "preferences", "extensions"}
)
CLUSTER_FIELDS = frozenset({"server", "certificate-authority-data", "tls-server-name", "extensions"})
USER_FIELDS = frozenset({"token", "client-certificate-data", "client-key-data", "extensions"})
CONTEXT_FIELDS = frozenset({"cluster", "user", "namespace", "extensions"})
WAYS_OUT: Final[Mapping[str, str]] = {
    "exec": "the operator runs no program of a kubeconfig; use a token or a client certificate",
    "auth-provider": "the operator runs no auth provider; use a token or a client certificate",
    "tokenFile": "the operator reads no file; put the token into the field token",
    "client-certificate": "the operator reads no file; use client-certificate-data",
    "client-key": "the operator reads no file; use client-key-data",
    "certificate-authority": "the operator reads no file; use certificate-authority-data",
    "proxy-url": "the operator connects directly; remove it",
    "insecure-skip-tls-verify": "the server must be verified; use certificate-authority-data",
    "username": "API servers accept no passwords; use a token or a client certificate",
    "password": "API servers accept no passwords; use a token or a client certificate",
    "as": "impersonation follows from spec.serviceAccountName; remove it",
    "as-uid": "impersonation follows from spec.serviceAccountName; remove it",
    "as-groups": "impersonation follows from spec.serviceAccountName; remove it",
    "as-user-extra": "impersonation follows from spec.serviceAccountName; remove it",
}
"""The advice for each well-known field that is refused."""
NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
SERVER_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9.]{0,251}[A-Za-z0-9])?")
PEM_START: Final = b"-----BEGIN "
PEM_BEGIN: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]{1,40})-----")
CERTIFICATE = b"CERTIFICATE"
CURVES = frozenset({"secp256r1", "secp384r1", "secp521r1"})
KEY_KINDS = f"RSA with up to {limits.CLUSTER_KEY_BITS} bits, ECDSA (P-256, P-384, P-521) or Ed25519"
HIDDEN_LENGTH = 8
"""Minimum characters of a line of a credential that is redacted. A shorter line identifies nothing, and redacting it
would hide ordinary words."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class InlineKubeconfig:
    """The data that a connection to another cluster needs."""

    credentials: Credentials
    namespace: str = ""
    """The namespace of the context, the only one in which objects are allowed; "" for all."""
    key: str
    """A hash of the content and its owner. It stays in this process, so it need not be keyed."""
    hidden_texts: frozenset[str] = field(repr=False)
    """The credentials, which no message may contain."""

    def check_keys(self) -> None:
        """Check its keys and certificates, which takes as long as they are large. Raises KubeconfigRefused."""
        wrong = {
            "client-key-data": find_wrong_key(self.credentials.key or b"") if self.credentials.key else "",
            "client-certificate-data": find_wrong_certificates(self.credentials.certificate or b""),
            "certificate-authority-data": find_wrong_certificates(self.credentials.authority or b""),
        }
        mistakes = [f"{name} {problem}" for name, problem in wrong.items() if problem]
        if mistakes:
            raise errors.KubeconfigRefused(list_mistakes(mistakes))

    @property
    def server(self) -> str:
        """Return the URL of the API server: one form for all spellings."""
        return self.credentials.server

    @property
    def host(self) -> str:
        """Return host and port of the API server, for messages."""
        return write_host(yarl.URL(self.credentials.server))


def write_host(url: yarl.URL) -> str:
    """Return host and port of a URL."""
    host = url.host or ""
    return f"[{host}]:{url.port}" if ":" in host else f"{host}:{url.port}"


def write_server(stated: str) -> str:
    """Return the only form of a server's URL that connections see, so that no spelling changes their behavior."""
    url = yarl.URL(stated)
    return f"https://{write_host(url)}{url.raw_path.rstrip('/')}"


def is_plain(server: object) -> TypeGuard[str]:
    """Return whether a server is a text of visible characters."""
    return isinstance(server, str) and server.isascii() and server.isprintable() and " " not in server


def list_mistakes(mistakes: Sequence[str]) -> str:
    """Return a message with one error per line, like the errors of a definition."""
    first, *more = mistakes
    if not more:
        return first
    return "\n- ".join([f"{first} (1 of {len(mistakes)} errors)", *more[: limits.MISTAKES]])


def parse(text: str, *, allows_loopback: bool = False, owner: str = "") -> InlineKubeconfig:
    """Return the credentials of the current context. Raises KubeconfigRefused with all errors.

    allows_loopback: whether the server may be on the operator's own machine; owner: the namespace that the key is for.
    """
    config = read(text)
    mistakes = [*find_unknown(config, CONFIG_FIELDS, where="")]
    context, at = find_entry(config, "context", config.get("current-context"), named_by="current-context")
    mistakes += find_unknown(context, CONTEXT_FIELDS, where=at)
    cluster, cluster_at = find_entry(config, "cluster", context.get("cluster"), named_by=f"{at}.cluster")
    mistakes += find_unknown(cluster, CLUSTER_FIELDS, where=cluster_at)
    user, user_at = find_entry(config, "user", context.get("user"), named_by=f"{at}.user")
    mistakes += find_unknown(user, USER_FIELDS, where=user_at)
    mistakes += find_wrong_server(cluster, cluster_at, allows_loopback=allows_loopback)
    mistakes += find_wrong_login(user, user_at)
    namespace = context.get("namespace") or ""
    if not isinstance(namespace, str) or (namespace and not NAMESPACE.fullmatch(namespace)):
        mistakes.append(f"{at}.namespace is not the name of a namespace; correct it")
    if mistakes:
        raise errors.KubeconfigRefused(list_mistakes(mistakes))
    return make(cluster, user, namespace, owner=owner)


def read(text: str) -> Mapping[str, Any]:
    """Return the content. Raises KubeconfigRefused if it is too large or no map; the message does not repeat it."""
    if len(text) > limits.KUBECONFIG_BYTES:
        raise errors.KubeconfigRefused(
            f"is larger than {limits.KUBECONFIG_BYTES} bytes; keep only the context that is used"
        )
    try:
        depth, nodes = limits.KUBECONFIG_DEPTH, limits.KUBECONFIG_NODES
        documents = list(kubectl_yaml.parse_documents(text, kubectl_yaml.Bounds(depth=depth, nodes=nodes)))
    except (ValueError, RecursionError, yaml.YAMLError):
        # Omit the cause, which may repeat a line of the text.
        raise errors.KubeconfigRefused(
            f"is not valid YAML, or has more than {limits.KUBECONFIG_NODES} values; check it with kubectl"
        ) from None
    content = documents[0].value if len(documents) == 1 else None
    if not isinstance(content, dict):
        raise errors.KubeconfigRefused("is not one map with clusters, contexts and users")
    return content


def find_entry(config: Mapping[str, Any], sort: str, name: object, *, named_by: str) -> tuple[Mapping[str, Any], str]:
    """Return the named entry of a section (`cluster`, `context`, `user`), and its place. Raises KubeconfigRefused."""
    entries = config.get(f"{sort}s")
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise errors.KubeconfigRefused(f"{sort}s is not a list of maps; a kubeconfig needs it")
    if not isinstance(name, str) or not name:
        raise errors.KubeconfigRefused(f"{named_by} is not set; set it to one of the {sort}s in the kubeconfig")
    for at, each in enumerate(entries):
        if each.get("name") == name:
            content = each.get(sort)
            if isinstance(content, dict):
                return content, f"{sort}s[{at}].{sort}"
    raise errors.KubeconfigRefused(f"{named_by} does not match an entry of {sort}s; correct the name")


def find_unknown(found: Mapping[str, Any], known: frozenset[str], *, where: str) -> Iterator[str]:
    """Yield an error for each field that is rejected. An empty field has no effect."""
    for name in sorted(map(str, found)):
        if name not in known and found.get(name):
            place = f"{where}.{name}" if where else name
            reason = WAYS_OUT.get(name, "the operator does not know this field; remove it")
            yield f"{place[: limits.NAME_LENGTH]} is not allowed: {reason}"


def find_wrong_server(cluster: Mapping[str, Any], at: str, *, allows_loopback: bool) -> Iterator[str]:
    """Yield errors for a server that is not an HTTPS URL without credentials."""
    name = cluster.get("tls-server-name")
    if name is not None and not (isinstance(name, str) and SERVER_NAME.fullmatch(name)):
        yield f"{at}.tls-server-name is not a DNS name; correct it"
    if authority := cluster.get("certificate-authority-data"):
        yield from find_wrong_pem(authority, f"{at}.certificate-authority-data")
    server = cluster.get("server")
    try:
        url = yarl.URL(server) if is_plain(server) else yarl.URL()
        host, port = url.host or "", url.port
    except ValueError:
        url, host, port = yarl.URL(), "", None
    if not host or not port or len(str(server)) > limits.KUBECONFIG_SERVER_LENGTH:
        yield f"{at}.server is not a URL; write https://host:port"
    elif url.scheme != "https":
        yield f"{at}.server must begin with https://, so that no other machine reads the credentials"
    elif url.user is not None or url.password is not None or url.query_string or url.fragment:
        yield f"{at}.server must contain only a host, a port and a path"
    elif not allows_loopback and (denial := deny_host(host)):
        yield f"{at}.server: {denial}"


def deny_host(host: str) -> str:
    """Return why this host is denied as it is written; names are checked once they are resolved."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        is_local = host.rstrip(".").lower() == "localhost" or host.rstrip(".").lower().endswith(".localhost")
        return foreign_servers.explain_denial(host) if is_local else ""
    return foreign_servers.deny_address(str(address))


def find_wrong_login(user: Mapping[str, Any], at: str) -> Iterator[str]:
    """Yield errors for a login that is neither a token nor a certificate with its key."""
    token = user.get("token")
    if token is not None and not (isinstance(token, str) and token.isascii() and token.isprintable()):
        yield f"{at}.token contains characters that a header cannot hold; write it on one line, in quotes"
    pair = [user.get("client-certificate-data"), user.get("client-key-data")]
    for name, value in zip(("client-certificate-data", "client-key-data"), pair, strict=True):
        if value:
            yield from find_wrong_pem(value, f"{at}.{name}")
    if bool(pair[0]) != bool(pair[1]):
        yield f"{at} needs both client-certificate-data and client-key-data"
    if not token and not any(pair):
        yield f"{at} has no token and no client-certificate-data; add one of them"


def find_wrong_pem(value: object, at: str) -> Iterator[str]:
    """Yield an error for a value without a certificate or key, for example because it was encoded twice."""
    decoded = decode(value)
    if decoded is None:
        yield f"{at} is not base64; encode it"
    elif PEM_START not in decoded:
        yield f"{at} holds no PEM block ({PEM_START.decode()}…); encode the file once, as it is"


def decode(value: object) -> bytes | None:
    """Decode base64 with or without line breaks. Returns None if it is not valid."""
    if not isinstance(value, str):
        return None
    try:
        return base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None


def make(cluster: Mapping[str, Any], user: Mapping[str, Any], namespace: str, *, owner: str) -> InlineKubeconfig:
    """Return the credentials of valid entries."""
    token = user.get("token") or ""
    credentials = Credentials(
        server=write_server(cluster["server"]),
        authority=decode(cluster.get("certificate-authority-data") or "") or None,
        certificate=decode(user.get("client-certificate-data") or "") or None,
        key=decode(user.get("client-key-data") or "") or None,
        authorization=f"Bearer {token}" if token else None,
        server_name=cluster.get("tls-server-name") or None,
        is_foreign=True,
    )
    return InlineKubeconfig(
        credentials=credentials,
        namespace=namespace,
        key=find_key(credentials, namespace, owner),
        hidden_texts=frozenset(find_hidden(token, str(user.get("client-key-data") or ""), credentials.key or b"")),
    )


def find_key(credentials: Credentials, namespace: str, owner: str) -> str:
    """Return the digest of everything that decides the actions and the view of a connection, and of who pays for it."""
    files = (credentials.authority, credentials.certificate, credentials.key)
    parts = [
        *(owner, credentials.server, credentials.server_name, credentials.authorization, namespace),
        *(hashlib.sha256(each).hexdigest() if each is not None else None for each in files),
    ]
    return hashlib.sha256(orjson.dumps(parts)).hexdigest()


def find_hidden(token: str, encoded_key: str, key: bytes) -> Iterator[str]:
    """Yield the texts that identify a credential."""
    lines = key.decode(errors="replace").splitlines()
    for text in (token, encoded_key, *(line for line in lines if not line.startswith("-----"))):
        if len(text) >= HIDDEN_LENGTH:
            yield text


@value_class.dataclass(frozen=True, slots=True)
class InlineSource:
    """The port `CredentialSource` for credentials that never change."""

    credentials: Credentials

    def load(self) -> Credentials:
        """Return the credentials."""
        return self.credentials


def find_wrong_key(pem: bytes) -> str:
    """Return why a private key is rejected, or "".

    Keys and certificates are limited by their content before OpenSSL uses them: a key that it loads in a millisecond
    may take minutes for one signature.
    """
    if len(pem) > limits.CLUSTER_PEM_BYTES:
        return f"has more than {limits.CLUSTER_PEM_BYTES} bytes; use a key that is {KEY_KINDS}"
    if b"ENCRYPTED" in pem:
        return "is encrypted; store it without a pass phrase"
    # Imported here, because only kubeconfigs with certificates need this large library.
    from cryptography.hazmat.primitives import serialization

    try:
        # Skip the validation of RSA keys, whose duration grows with the size of the key.
        found = serialization.load_pem_private_key(pem, password=None, unsafe_skip_rsa_key_validation=True)
    except Exception:  # noqa: BLE001 -- its errors are of many classes, and may repeat parts of the key
        return "is not a private key that can be read; use one in PEM"
    return "" if is_usual(found) else f"is of another kind; use one that is {KEY_KINDS}"


def find_wrong_certificates(pem: bytes) -> str:
    """Return why a chain of certificates is rejected, or ""."""
    if len(pem) > limits.CLUSTER_PEM_BYTES * limits.CLUSTER_CERTIFICATES:
        return f"has more than {limits.CLUSTER_PEM_BYTES * limits.CLUSTER_CERTIFICATES} bytes"
    found = list(split(pem))
    if len(found) > limits.CLUSTER_CERTIFICATES:
        return f"has {len(found)} PEM blocks, and at most {limits.CLUSTER_CERTIFICATES} are used; keep those it needs"
    if any(len(each) > limits.CLUSTER_PEM_BYTES for each in found):
        return f"has a PEM block of more than {limits.CLUSTER_PEM_BYTES} bytes"
    from cryptography import x509

    for each in found:
        if PEM_BEGIN.match(each) is None or CERTIFICATE not in each[:64]:
            return "has a PEM block that is not a certificate; remove it"
        try:
            with warnings.catch_warnings():
                # An unusual serial number is no reason to refuse a certificate, or to warn a user who did not create
                # it.
                warnings.simplefilter("ignore")
                key = x509.load_pem_x509_certificate(each).public_key()
        except Exception:  # noqa: BLE001 -- its errors are of many classes
            return "has a certificate that cannot be read; copy the certificates of the cluster unchanged"
        if not is_usual(key):
            return f"has a certificate whose key is of another kind; use one that is {KEY_KINDS}"
    return ""


def split(pem: bytes) -> Iterator[bytes]:
    """Yield the PEM blocks, each from its beginning."""
    begins = [found.start() for found in PEM_BEGIN.finditer(pem)]
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
