"""Paths on this machine: files that can be rebuilt, and files of running processes. Never in the checkout."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent


def cache() -> Path:
    """The folder for programs and toolchains, which can be rebuilt."""
    return _base("XDG_CACHE_HOME", ".cache")


@dataclass(frozen=True, slots=True)
class Home:
    """The folder of one control plane; removed when the control plane stops, except for logs and locks."""

    name: str

    @property
    def folder(self) -> Path:
        """Contains all files below.

        Every process of the control plane has it in its arguments, and no other process has.
        """
        return _base("XDG_STATE_HOME", ".local/state") / self.name

    @property
    def kubeconfig(self) -> Path:
        """Predictable, so that other programs need not ask."""
        return self.folder / "kubeconfig"

    @property
    def workdir(self) -> Path:
        """Belongs to kwokctl."""
        return self.folder / "kwok"

    @property
    def audit_log(self) -> Path:
        """The API server's log of all requests, if enabled."""
        return self.workdir / "clusters" / self.name / "logs" / "audit.log"

    @property
    def configuration(self) -> Path:
        """The requested configuration of kwokctl."""
        return self.folder / "kwokctl.yaml"

    @property
    def record(self) -> Path:
        """The settings of the control plane; the file exists only while the control plane is complete."""
        return self.folder / "record.json"

    @property
    def log(self) -> Path:
        """The output of the start."""
        return self.folder / "up.log"

    @property
    def logs_of_the_failed(self) -> Path:
        """The logs of the components whose start failed last."""
        return self.folder / "failed"

    @property
    def lock(self) -> Path:
        """Held while the control plane is started or ended."""
        return self.folder / "lock"

    @property
    def users(self) -> Path:
        """Shared by all who use the control plane only while they run."""
        return self.folder / "users"


def _base(variable: str, otherwise: str) -> Path:
    # The XDG standard ignores relative paths, because they depend on the working directory.
    given = Path(os.environ.get(variable, ""))
    return (given if given.is_absolute() else Path.home() / otherwise) / "hearth"
