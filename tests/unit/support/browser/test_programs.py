"""Tests without a browser must not look like passed tests: missing programs are reported with the way to install
them.
"""

from __future__ import annotations

import os
from pathlib import Path

import progress
import pytest

from support.browser import programs


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any program; the folder where they are looked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def add_program(machine: Path, name: str, script: str = "exit 0") -> None:
    file = machine / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def test_a_missing_browser_fails_with_what_to_do(machine: Path) -> None:
    with pytest.raises(
        progress.Impossible, match=r"chromium and chromedriver: .* apt-get install chromium .*make browser"
    ):
        programs.find()


def test_missing_rules_fail_too(machine: Path) -> None:
    """Accessibility also needs the rules."""
    for name in ("chromium", "chromedriver"):
        add_program(machine, name)

    with pytest.raises(progress.Impossible, match=r"need axe-core at .*: run `make browser`"):
        programs.find()


def test_who_may_not_install_hears_which_packages(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    add_program(machine, "apt-get")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(progress.Impossible, match="the packages chromium, chromium-driver, npm: install them as root"):
        programs.ensure()


def test_rules_with_another_hash_are_not_used(machine: Path) -> None:
    for name in ("chromium", "chromedriver"):
        add_program(machine, name)
    add_program(
        machine, "npm", 'while [ "$1" != --pack-destination ]; do shift; done; echo x > "$2/axe-core-4.14.1.tgz"'
    )

    with pytest.raises(progress.Impossible, match="do not use it"):
        programs.ensure()
    assert not programs.axe_file().exists()


def test_a_command_that_fails_is_quoted(machine: Path) -> None:
    for name in ("chromium", "chromedriver"):
        add_program(machine, name)
    add_program(machine, "npm", "echo no network >&2; exit 1")

    with pytest.raises(progress.Impossible, match="no network"):
        programs.ensure()
