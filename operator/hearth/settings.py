"""What the operator is told when it starts: frozen values, and how they are read from text.

Flags and environment variables are the business of `hearth.cli.run`; must not know what the settings are used for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Literal, TypeAlias

LogFormat: TypeAlias = Literal["text", "json"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where a pod is told its own namespace."""
DEFAULT_OPERATOR_NAMESPACE = "hearth-system"
HIGHEST_PORT = 65_535
DURATION = re.compile(r"(?:(?P<hours>\d+)h)?(?:(?P<minutes>\d+)m)?(?:(?P<seconds>\d+)s)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where to listen."""

    host: str
    port: int
    """0: any that is free."""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All that `hearth run` can be told."""

    kubeconfig: str | None = None
    """A kubeconfig file; None: the pod's own account, else what kubectl would take."""
    context: str | None = None
    namespace: str | None = None
    """Whose Stacks are served; None: those of all namespaces."""
    operator_namespace: str = DEFAULT_OPERATOR_NAMESPACE
    """Where the operator keeps what belongs to itself."""
    http_address: Address = Address(host="127.0.0.1", port=8080)
    log_format: LogFormat = "text"
    log_level: LogLevel = "info"
    concurrency: int = 32
    """Writes that may be on their way to the API server at once."""
    max_backoff: timedelta = timedelta(minutes=5)
    """The longest wait between two attempts at one resource."""


def parse_address(text: str) -> Address:
    """The address that `text` states, as in `127.0.0.1:8080`, `[::1]:8080` or `:8080`. Raises ValueError."""
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > HIGHEST_PORT:
        raise ValueError(f"{text!r} is no address: write host:port, as in 127.0.0.1:8080")
    if host.startswith("[") and host.endswith("]"):
        return Address(host=host[1:-1], port=int(port))
    if ":" in host:
        raise ValueError(f"{text!r} is no address: write an IPv6 host in brackets, as in [::1]:8080")
    return Address(host=host or "0.0.0.0", port=int(port))  # noqa: S104 -- asked for by leaving the host out


def parse_duration(text: str) -> timedelta:
    """The time that `text` states, as in `90s`, `5m` or `1h30m`. Raises ValueError."""
    found = DURATION.fullmatch(text)
    parts = {unit: int(value) for unit, value in found.groupdict().items() if value} if found else {}
    if not any(parts.values()):
        raise ValueError(f"{text!r} is no duration above zero: write it as in 90s, 5m or 1h30m")
    return timedelta(**parts)


def find_operator_namespace(file: Path = NAMESPACE_FILE) -> str:
    """The pod's own namespace, or the usual one where this is no pod."""
    try:
        return file.read_text().strip() or DEFAULT_OPERATOR_NAMESPACE
    except OSError:
        return DEFAULT_OPERATOR_NAMESPACE
