"""The requests that an API server logs during a test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import places


def find(kubeconfig: Path) -> Path:
    """The audit log of the control plane with that kubeconfig."""
    found = places.Home(kubeconfig.parent.name).audit_log
    assert found.exists(), f"no audit log at {found}: start the control plane by `controlplane.py … with --audit`"
    return found


class AuditLog:
    """The lines that an API server logs from now on.

    It renames a file of 100 MiB, `audit.log` to `audit-<time>.log`, and starts a new one.
    """

    def __init__(self, path: Path) -> None:
        """Start at the end of the current log."""
        self._path = path
        stat = path.stat()
        self._inode, self._offset = stat.st_ino, stat.st_size

    def read(self) -> Iterator[dict[str, Any]]:
        """The events in their order."""
        for line in self.read_lines():
            yield json.loads(line)

    def read_lines(self) -> Iterator[bytes]:
        """The same, not parsed."""
        older = sorted(self._path.parent.glob(f"{self._path.stem}-*{self._path.suffix}"))
        files = [*older, self._path]
        begun = [file.stat().st_ino for file in files].index(self._inode)
        for file, offset in zip(files[begun:], (self._offset, *[0] * len(files)), strict=False):
            with file.open("rb") as opened:
                opened.seek(offset)
                yield from (line for line in opened if line.endswith(b"\n"))
