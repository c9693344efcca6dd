"""Where the API server is and how to prove who we are: from a kubeconfig, or from the pod's service account.

Reading is blocking (files, exec plugins); callers run it in a thread. Must not know what requests are sent.
"""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol
from urllib import parse

import yarl

from hearth.kube.auth import auth_provider, exec_plugin, kubeconfig
from hearth.kube.auth.exec_plugin import LoginResult
from hearth.kube.auth.kubeconfig import KubeconfigContext, KubeconfigEntry
from hearth.model import errors

SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
USER_FILES = ("client-certificate", "client-key", "tokenFile")
EXPIRY_MARGIN = 60.0
"""Seconds: a token this close to its end counts as ended, since requests take their time and clocks differ."""


class NoCredentials(errors.Unreachable):
    """Credentials could not be read; whoever starts the program mends it, while running it is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """What a connection needs to reach one API server, once read."""

    server: str
    """`https://host:port`, perhaps with a path, without a slash at its end."""
    authority: bytes | None = None
    """The certificates (PEM) that the server is verified against; None for those of the system."""
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    authorization: str | None = field(default=None, repr=False)
    """The value of the header: `Bearer …`."""
    is_verified: bool = True
    server_name: str | None = None
    """The name in the server's certificate, where it differs from the host."""
    proxy: str | None = None
    expires_at: float | None = None
    """Seconds since the epoch."""
    files: Mapping[str, float] = field(default_factory=dict)
    """What they were read from, with the time of its last change."""


class CredentialSource(Protocol):
    """Something that credentials can be read from, again and again."""

    def load(self) -> Credentials:
        """The credentials as they are now. Blocks; raises `NoCredentials`."""


def is_stale(credentials: Credentials) -> bool:
    """Whether reading them again would bring others: they run out, or a file that they came from changed."""
    if credentials.expires_at is not None and time.time() > credentials.expires_at - EXPIRY_MARGIN:
        return True
    return stamp(credentials.files) != credentials.files


def stamp(files: Iterable[str]) -> dict[str, float]:
    """The time of the last change of each file; 0 for one that is not there."""
    return {name: Path(name).stat().st_mtime if Path(name).exists() else 0.0 for name in files}


def find_source(*, kubeconfig: str | None, context: str | None, environ: Mapping[str, str]) -> CredentialSource:
    """What the credentials come from: an explicit kubeconfig, else the pod's own account, else kubectl's default."""
    if kubeconfig is None and context is None and environ.get("KUBERNETES_SERVICE_HOST"):
        return ServiceAccountSource(environ=environ)
    paths = kubeconfig or environ.get("KUBECONFIG") or "~/.kube/config"
    # Only the variable is a list of files; a path that somebody typed may hold a colon.
    separated = [kubeconfig] if kubeconfig else paths.split(os.pathsep)
    return KubeconfigSource(paths=tuple(path for path in separated if path), context=context, environ=environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAccountSource:
    """The account that a pod runs as."""

    environ: Mapping[str, str]
    folder: Path = SERVICE_ACCOUNT_FOLDER

    def load(self) -> Credentials:
        """The token and authority as mounted now."""
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
                "mount its token (automountServiceAccountToken), or name a kubeconfig with --kubeconfig"
            ) from error
        return with_proxy(credentials, self.environ)


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeconfigSource:
    """A kubeconfig file, or several merged as kubectl does."""

    paths: tuple[str, ...]
    context: str | None
    environ: Mapping[str, str]

    def load(self) -> Credentials:
        """The context's credentials; runs its exec plugin, if any."""
        paths = [str(Path(path).expanduser()) for path in self.paths]
        if not any(Path(path).is_file() for path in paths):
            raise NoCredentials(f"no kubeconfig at {', '.join(paths)}; name one with --kubeconfig")
        try:
            credentials = load_context(paths, context=self.context, environ=self.environ)
            check_types(credentials)
            return with_proxy(credentials, self.environ)
        except NoCredentials:
            raise
        # Files of any shape, and an old provider that lets errors of any class through; each means the same here.
        except Exception as error:
            raise NoCredentials(f"cannot read credentials from {', '.join(paths)}: {error}") from error


def load_context(paths: Sequence[str], *, context: str | None, environ: Mapping[str, str]) -> Credentials:
    """That context's credentials."""
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
        is_verified=not cluster.content.get("insecure-skip-tls-verify"),
        server_name=cluster.content.get("tls-server-name"),
        proxy=cluster.content.get("proxy-url"),
        expires_at=login.expires_at,
        files=stamp([*paths, *(str(file) for file in named if file is not None)]),
    )


def check_types(credentials: Credentials) -> None:
    """Raises Unusable where an entry cannot be what it is to be; it is not repeated, as it may be a secret."""
    for name, entry in (("server", credentials.server), ("tls-server-name", credentials.server_name)):
        if entry is not None and not isinstance(entry, str):
            raise kubeconfig.InvalidKubeconfig(f"{name} must be text; put it in quotes")
    if credentials.proxy is not None and not isinstance(credentials.proxy, str):
        raise kubeconfig.InvalidKubeconfig("proxy-url must be text; put it in quotes")
    authorization = credentials.authorization or ""
    if not authorization.isprintable() or not authorization.isascii():
        raise kubeconfig.InvalidKubeconfig(
            "the token, or the password, holds characters that no header can; write it on one line"
        )
    for url in filter(None, (credentials.server, credentials.proxy)):
        try:
            parts = yarl.URL(url)
        except (ValueError, TypeError) as error:
            raise kubeconfig.InvalidKubeconfig("a server or proxy-url is no URL; write https://host:port") from error
        if not parts.host:
            raise kubeconfig.InvalidKubeconfig("a server or proxy-url names no host; write https://host:port")


def log_in(context: KubeconfigContext, paths: Sequence[str], environ: Mapping[str, str]) -> LoginResult:
    """What proves who the context's user is, besides what stands in the kubeconfig as it is."""
    user = context.user
    token_file = user.find_file("tokenFile")
    if "auth-provider" in user.content:
        return auth_provider.log_in(paths, context.name)
    if token_file is not None:
        # It rotates, so that it counts before a token that was written down once.
        return LoginResult(token=token_file.read_text().strip())
    if user.content.get("token"):
        return LoginResult(token=user.content["token"])
    if "exec" in user.content:
        return exec_plugin.log_in(user.content["exec"], context, environ=environ)
    return LoginResult()


def find_basic_login(user: KubeconfigEntry) -> str | None:
    """The header of a login by name and password, where those are given."""
    name, password = user.content.get("username"), user.content.get("password")
    if not name or password is None:
        return None
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


def with_proxy(credentials: Credentials, environ: Mapping[str, str]) -> Credentials:
    """The same, with the environment's proxy where none is stated; never for this very machine, as in kubectl."""
    parts = parse.urlsplit(credentials.server)
    host = parts.hostname or ""
    variables = {name.lower(): value for name, value in environ.items() if value}
    proxy = credentials.proxy or variables.get(f"{parts.scheme}_proxy")
    if credentials.proxy is None and is_direct(host, variables.get("no_proxy", "")):
        proxy = None
    if proxy and not proxy.startswith(("http://", "https://")):
        raise NoCredentials(f"proxy {proxy!r} cannot be used: only http:// and https:// are known; name such a one")
    return replace(credentials, proxy=proxy)


def is_direct(host: str, no_proxy: str) -> bool:
    """Whether `host` is reached without the environment's proxy: `no_proxy` lists domains, addresses and networks."""
    if host == "localhost":
        return True
    entries = [entry.strip().lstrip("*.") for entry in no_proxy.split(",") if entry.strip()]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "*" in no_proxy.split(",") or any(host == entry or host.endswith(f".{entry}") for entry in entries)
    return address.is_loopback or any(address in network for network in parse_networks(entries))


def parse_networks(entries: Iterable[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Those entries that are addresses or networks."""
    networks = []
    for entry in entries:
        with contextlib.suppress(ValueError):
            networks.append(ipaddress.ip_network(entry, strict=False))
    return networks
