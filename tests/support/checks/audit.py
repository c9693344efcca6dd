"""Looks up known vulnerabilities of the locked packages with pip-audit.

    python -m support.checks.audit                        all of requirements.lock
    python -m support.checks.audit --beside COMMAND…      only Hearth's packages at run time, while the command runs

A vulnerability fails. An unreachable service only prints a notice. To detect a mirror of the registry that has no such
data, the audit first asks about a version that is known to be vulnerable.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import image_wheels

from support import repository

SAMPLE = ("django", "1.11")
"""A third-party package, and a version with many known vulnerabilities."""
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)(?:\[[^]]*\])?==([^ ;\\]+)", re.MULTILINE | re.IGNORECASE)
SECONDS = 120.0
SECONDS_BESIDE = 10.0
"""Seconds from the start; the command may take longer."""
REQUEST_SECONDS = 5
REPORT, ERRORS = "report.json", "errors.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The result of an audit."""

    text: str
    is_bad: bool = False


def main(arguments: Sequence[str]) -> int:
    """Audit; the exit code is 1 for a vulnerability, otherwise the command's."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, help="how long the service may take")
    parser.add_argument("--beside", nargs=argparse.REMAINDER, default=[], metavar="COMMAND")
    given, options = parser.parse_known_args(arguments)
    pins = read_pins(image_wheels.list_names(left_out=None) if given.beside else None)
    seconds = given.seconds or (SECONDS_BESIDE if given.beside else SECONDS)
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        audit = start(pins, folder, options)
        code = subprocess.run(given.beside, check=False).returncode if given.beside else 0
        wait(audit, deadline - time.monotonic())
        report, errors = ((folder / each).read_text() for each in (REPORT, ERRORS))
    verdict = judge(report, errors, accepted=read_accepted())
    print(verdict.text, file=sys.stderr if verdict.is_bad else sys.stdout)
    return code or int(verdict.is_bad)


def read_pins(names: Collection[str] | None = None) -> dict[str, str]:
    """Version by package of the lock file; names: only of these."""
    found = dict(PIN.findall((repository.ROOT / "requirements.lock").read_text()))
    return {name: version for name, version in found.items() if names is None or name in names}


def read_accepted() -> dict[str, str]:
    """Reason by vulnerability that does not concern Hearth, from pyproject.toml."""
    tools = tomllib.loads((repository.ROOT / "pyproject.toml").read_text())["tool"]
    accepted: dict[str, str] = tools["hearth"]["audit"]["accepted"]
    return accepted


def start(pins: Mapping[str, str], folder: Path, options: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start pip-audit, which writes into the folder. options: further options of pip-audit."""
    file = folder / "pins.txt"
    file.write_text("".join(f"{name}=={version}\n" for name, version in {**pins, SAMPLE[0]: SAMPLE[1]}.items()))
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--no-deps", "--progress-spinner=off"]
    command += ["--format=json", f"--timeout={REQUEST_SECONDS}", f"--requirement={file}", *options]
    with (folder / REPORT).open("wb") as report, (folder / ERRORS).open("wb") as errors:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=report, stderr=errors)


def wait(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Until it ends, or for so long."""
    try:
        process.wait(max(seconds, 0))
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def judge(report: str, errors: str, *, accepted: Mapping[str, str]) -> Verdict:
    """Decide from the output of pip-audit."""
    try:
        found: list[dict[str, Any]] = json.loads(report)["dependencies"]
    except (ValueError, KeyError):
        lines = [line for line in errors.splitlines() if line.startswith("ERROR:")] or ["it did not answer in time"]
        return Verdict(text=describe_unreachable(lines[-1]))
    by_name = {each["name"]: each for each in found}
    sample = by_name.pop(SAMPLE[0], {})
    if not sample.get("vulns"):
        return Verdict(text=describe_unreachable(sample.get("skip_reason") or f"it knows nothing about {SAMPLE[0]}"))
    bad = [
        describe_vulnerability(each, vulnerability)
        for each in by_name.values()
        for vulnerability in each.get("vulns", ())
        if accepted.keys().isdisjoint({vulnerability["id"], *vulnerability["aliases"]})
    ]
    if bad:
        advice = "update them in requirements.lock, or name those that do not concern Hearth in [tool.hearth.audit]"
        return Verdict(text="\n".join([f"audit: {len(bad)} known vulnerabilities: {advice}", *bad]), is_bad=True)
    skipped = [f"  not audited: {each['skip_reason']}" for each in by_name.values() if "skip_reason" in each]
    return Verdict(
        text="\n".join([f"audit: no known vulnerability in {len(by_name) - len(skipped)} packages", *skipped])
    )


def describe_unreachable(why: str) -> str:
    """Say that nothing was found out."""
    return f"NOTICE: packages were not audited, the data about vulnerabilities cannot be reached: {why[:300]}"


def describe_vulnerability(package: Mapping[str, Any], vulnerability: Mapping[str, Any]) -> str:
    """A line about one."""
    names = ", ".join([vulnerability["id"], *vulnerability["aliases"]])
    fixed = ", ".join(vulnerability["fix_versions"]) or "none"
    return f"  {package['name']} {package['version']}: {names}; fixed in: {fixed}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
