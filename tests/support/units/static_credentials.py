"""Fixed credentials as a source of credentials."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hearth.kube.auth.credentials import Credentials


@dataclass(frozen=True)
class FixedSource:
    """Returns the same credentials every time."""

    credentials: Credentials

    def load(self) -> Credentials:
        return self.credentials


def log_in(base: Credentials, token: str) -> FixedSource:
    """The same server, with a token in place of the certificate."""
    return FixedSource(replace(base, certificate=None, key=None, authorization=f"Bearer {token}"))
