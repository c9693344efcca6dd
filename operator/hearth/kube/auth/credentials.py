"""Loads the address and credentials of the API server from a kubeconfig or the Pod's service account.

Loading blocks on files and exec plugins, so callers run it in a thread.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import ipaddress
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Protocol
from urllib import parse

import yarl

from hearth.kube.auth import exec_plugin, kubeconfig
from hearth.kube.auth.exec_plugin import LoginResult
from hearth.kube.auth.kubeconfig import KubeconfigContext, KubeconfigEntry
from hearth.model import errors, value_class

SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
USER_FILES = ("client-certificate", "client-key", "tokenFile")
EXPIRY_MARGIN = 60.0
"""Seconds before the expiration when a token counts as expired, to allow for request durations and clock skew."""


class NoCredentials(errors.Unreachable):
    """Error for unreadable credentials; at start-up the administrator fixes them, later the operator retries."""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The data that a connection to one API server needs."""

    server: str
    """`https://host:port`, optionally with a path, without a trailing slash."""
    authority: bytes | None = None
    """The certificates (PEM) that verify the server; None for the system's certificates."""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    authorization: str | None = field(default=None, repr=False)
    """The value of the header: `Bearer …`."""
    user: str = ""
    """The user that each request impersonates; "" for none."""
    is_verified: bool = True
    server_name: str | None = None
    """The name in the server's certificate, if it differs from the host."""
    proxy: str | None = None
    is_foreign: bool = False
    """Whether a tenant chose the server, so that its answers are hostile."""
    expires_at: float | None = None
    """Seconds since the epoch."""
    files: Mapping[str, float] = field(default_factory=dict)
    """The files that the credentials were read from, with their modification times."""


class CredentialSource(Protocol):
    """A source that can load credentials repeatedly."""

    def load(self) -> Credentials:
        """Return the current credentials. Blocks; raises `NoCredentials`."""


class UserCredentialSource(CredentialSource, Protocol):
    """A source that also knows where its user works."""

    def find_namespace(self) -> str:
        """Return the default namespace for commands, or "". Blocks."""


def is_stale(credentials: Credentials) -> bool:
    """Return whether to load the credentials again: they expire, or one of their files changed."""
    if credentials.expires_at is not None and time.time() > credentials.expires_at - EXPIRY_MARGIN:
        return True
    return stamp(credentials.files) != credentials.files


def stamp(files: Iterable[str]) -> dict[str, float]:
    """Return the modification time of each file; 0 for a missing file."""
    return {name: Path(name).stat().st_mtime if Path(name).exists() else 0.0 for name in files}


def find_source(*, kubeconfig: str | None, context: str | None, environ: Mapping[str, str]) -> UserCredentialSource:
    """Return the source of credentials: an explicit kubeconfig, otherwise the Pod's account, otherwise kubectl's
    default.
    """
    if kubeconfig is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        return ServiceAccountSource(environ=environ)
    paths = kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    # Only the variable is a list of files; a path that the user specifies may contain a colon.
    separated = [kubeconfig] if kubeconfig else paths.split(os.pathsep)
    return KubeconfigSource(paths=tuple(path for path in separated if path), context=context, environ=environ)


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ImpersonatingSource:
    """The credentials of another source, used to act as another user, as kubectl's `--as`."""

    inner: UserCredentialSource
    user: str

    def load(self) -> Credentials:
        """Return the current credentials."""
        return replace(self.inner.load(), user=self.user)

    def find_namespace(self) -> str:
        """Return the namespace of commands that name none."""
        return self.inner.find_namespace()


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountSource:
    """The service account of a pod."""

    environ: Mapping[str, str]
    folder: Path = SERVICE_ACCOUNT_FOLDER

    def load(self) -> Credentials:
        """Return the token and authority in their current mounted form."""
        host, port = self.environ.get("KUBERNETES_SERVICE_HOST", ""), self.environ.get("KUBERNETES_SERVICE_PORT", "443")
        token, authority = self.folder / "token", self.folder / "ca.crt"
        files = stamp([str(token), str(authority)])
        try:
            credentials = Credentials(
                server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
                authority=authority.read_bytes(),
                authorization=f"Bearer {token.read_text().strip()}",
                files=files,
            )
        except OSError as error:
            raise NoCredentials(
                f"cannot read the pod's service account: {error}; "
                "mount its token (automountServiceAccountToken), or pass a kubeconfig with --kubeconfig"
            ) from error
        return with_proxy(credentials, self.environ)

    def find_namespace(self) -> str:
        """Return the namespace of the pod, or "" if it is not mounted."""
        with contextlib.suppress(OSError):
            return (self.folder / "namespace").read_text().strip()
        return ""


@value_class.dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigSource:
    """A kubeconfig file, or several files merged as in kubectl."""

    paths: tuple[str, ...]
    context: str | None
    environ: Mapping[str, str]

    def load(self) -> Credentials:
        """Return the context's credentials; run its exec plugin, if any."""
        paths = [str(Path(path).expanduser()) for path in self.paths]
        if not any(Path(path).is_file() for path in paths):
            raise NoCredentials(f"no kubeconfig at {', '.join(paths)}; pass one with --kubeconfig")
        try:
            credentials = load_context(paths, context=self.context, environ=self.environ)
            check_types(credentials)
            return with_proxy(credentials, self.environ)
        except NoCredentials:
            raise
        # Files may have any structure, and an outdated provider may raise any error. All of them mean unusable
        # credentials.
        except Exception as error:
            raise NoCredentials(f"cannot read credentials from {', '.join(paths)}: {error}") from error

    def find_namespace(self) -> str:
        """Return the namespace of the context, or "" if it has none or cannot be read. `load` raises the reason."""
        paths = [str(Path(path).expanduser()) for path in self.paths]
        with contextlib.suppress(OSError, kubeconfig.InvalidKubeconfig):
            return kubeconfig.find_context([path for path in paths if Path(path).is_file()], self.context).namespace
        return ""


def load_context(paths: Sequence[str], *, context: str | None, environ: Mapping[str, str]) -> Credentials:
    """Return the credentials of this context."""
    present = [path for path in paths if Path(path).is_file()]
    found = kubeconfig.find_context(present, context)
    cluster, user = found.cluster, found.user
    login = log_in(found, present, environ)
    named = (cluster.find_file("certificate-authority"), *map(user.find_file, USER_FILES))
    return Credentials(
        server=cluster.content["server"].rstrip("/"),
        authority=cluster.read("certificate-authority"),
        certificate=login.certificate or user.read("client-certificate"),
        key=login.key or user.read("client-key"),
        authorization=f"Bearer {login.token}" if login.token else find_basic_login(user),
        user=str(user.content.get("as") or ""),
        is_verified=not cluster.content.get("insecure-skip-tls-verify"),
        server_name=cluster.content.get("tls-server-name"),
        proxy=cluster.content.get("proxy-url"),
        expires_at=login.expires_at,
        files=stamp([*paths, *(str(file) for file in named if file is not None)]),
    )


def check_types(credentials: Credentials) -> None:
    """Raise InvalidKubeconfig if an entry has a wrong type; its value may be a secret and is not repeated."""
    for name, entry in (("server", credentials.server), ("tls-server-name", credentials.server_name)):
        if entry is not None and not isinstance(entry, str):
            raise kubeconfig.InvalidKubeconfig(f"{name} must be text; put it in quotes")
    if credentials.proxy is not None and not isinstance(credentials.proxy, str):
        raise kubeconfig.InvalidKubeconfig("proxy-url must be text; put it in quotes")
    authorization = credentials.authorization or ""
    if not authorization.isprintable() or not authorization.isascii():
        raise kubeconfig.InvalidKubeconfig(
            "the token or the password contains characters that a header cannot hold; write it on one line"
        )
    for url in filter(None, (credentials.server, credentials.proxy)):
        try:
            parts = yarl.URL(url)
        except (ValueError, TypeError) as error:
            raise kubeconfig.InvalidKubeconfig("a server or proxy-url is not a URL; write https://host:port") from error
        if not parts.host:
            raise kubeconfig.InvalidKubeconfig("a server or proxy-url has no host; write https://host:port")


def log_in(context: KubeconfigContext, paths: Sequence[str], environ: Mapping[str, str]) -> LoginResult:
    """Return the login of the context's user, apart from the data that the kubeconfig contains directly."""
    user = context.user
    token_file = user.find_file("tokenFile")
    if "auth-provider" in user.content:
        return log_in_with_provider(paths, context.name)
    if token_file is not None:
        # The file's token rotates, so it takes precedence over a static token.
        return LoginResult(token=token_file.read_text().strip())
    if user.content.get("token"):
        return LoginResult(token=user.content["token"])
    if "exec" in user.content:
        return exec_plugin.log_in(user.content["exec"], context, environ=environ)
    return LoginResult()


def find_basic_login(user: KubeconfigEntry) -> str | None:
    """Return the header of a basic login, if name and password are present."""
    name, password = user.content.get("username"), user.content.get("password")
    if not name or password is None:
        return None
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def with_proxy(credentials: Credentials, environ: Mapping[str, str]) -> Credentials:
    """Add the environment's proxy if none is set; never for localhost, as in kubectl."""
    parts = parse.urlsplit(credentials.server)
    host = parts.hostname or ""
    variables = {name.lower(): value for name, value in environ.items() if value}
    proxy = credentials.proxy or variables.get(f"{parts.scheme}_proxy")
    if credentials.proxy is None and is_direct(host, variables.get("no_proxy", "")):
        proxy = None
    if proxy and not proxy.startswith(("http://", "https://")):
        raise NoCredentials(
            f"proxy {proxy!r} cannot be used: only http:// and https:// are supported; set one of these"
        )
    return replace(credentials, proxy=proxy)


def is_direct(host: str, no_proxy: str) -> bool:
    """Return whether `host` bypasses the environment's proxy: `no_proxy` lists domains, addresses and networks."""
    if host == "localhost":
        return True
    entries = [entry.strip().lstrip("*.") for entry in no_proxy.split(",") if entry.strip()]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "*" in no_proxy.split(",") or any(host == entry or host.endswith(f".{entry}") for entry in entries)
    return address.is_loopback or any(address in network for network in parse_networks(entries))


def parse_networks(entries: Iterable[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return the entries that are addresses or networks."""
    networks = []
    for entry in entries:
        with contextlib.suppress(ValueError):
            networks.append(ipaddress.ip_network(entry, strict=False))
    return networks


def log_in_with_provider(paths: Sequence[str], context: str) -> LoginResult:
    """Return the token of an `auth-provider` (`oidc`, `gcp`), the predecessor of exec plugins; renewed if expired.

    Blocks. Raises any error of the official client library.
    """
    # Its import takes half a second and 50 MiB, so it happens only when needed.
    kube_config: Any = importlib.import_module("kubernetes.config.kube_config")
    merged = kube_config.KubeConfigMerger(os.pathsep.join(paths)).config
    # The library writes inline data to files, including private keys.
    with tempfile.TemporaryDirectory(prefix="hearth-") as folder:
        loader = kube_config.KubeConfigLoader(
            config_dict=merged, active_context=context, config_base_path=None, temp_file_path=folder
        )
        loader.load_and_set(Sink())
    found = vars(loader)
    token, expiry = found.get("token"), found.get("expiry")
    return LoginResult(
        token=token.removeprefix("Bearer ") if token else None, expires_at=expiry.timestamp() if expiry else None
    )


class Sink:
    """Receiver of the loader's values; they are read directly from the loader."""

    def __init__(self) -> None:
        self.api_key: dict[str, str] = {}
