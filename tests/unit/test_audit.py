"""The audit of locked packages, with pip-audit and a simulated service, and the lock itself."""

from __future__ import annotations

import http.server
import json
import re
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest

from hearth.cli import main
from support import repository
from support.checks import audit

KNOWN: dict[str, Any] = {
    "id": "PYSEC-2000-1",
    "aliases": ["CVE-2000-1"],
    "summary": "bad",
    "details": "bad",
    "affected": [{"ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "9999"}]}]}],
}


@pytest.fixture
def service(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of a service that knows a vulnerability of the packages in the fixture's parameter."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name = asked["package"]["name"]
            package = {"name": name, "ecosystem": "PyPI"}
            affected = [{**each, "package": package} for each in KNOWN["affected"]]
            body = json.dumps({"vulns": [{**KNOWN, "affected": affected}]} if name in request.param else {}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1/query"
        server.shutdown()


def run(url: str, *arguments: str) -> int:
    """The exit code of an audit that asks that service."""
    return audit.main(["--vulnerability-service=osv", f"--osv-url={url}", *arguments])


def beside(code: int) -> list[str]:
    """The last arguments: a command with that exit code."""
    return ["--beside", sys.executable, "-c", f"raise SystemExit({code})"]


@pytest.mark.parametrize("service", [{"django"}], indirect=True)
def test_packages_without_known_vulnerabilities_pass(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(service, *beside(0)) == 0
    assert "audit: no known vulnerability in" in capsys.readouterr().out


@pytest.mark.parametrize("service", [{"django"}], indirect=True)
def test_the_exit_code_of_the_command_remains(service: str) -> None:
    assert run(service, *beside(3)) == 3


@pytest.mark.parametrize("service", [{"django", "aiohttp"}], indirect=True)
def test_a_known_vulnerability_fails(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    version = audit.read_pins()["aiohttp"]

    assert run(service, *beside(0)) == 1
    assert f"aiohttp {version}: PYSEC-2000-1, CVE-2000-1; fixed in: 9999" in capsys.readouterr().err


@pytest.mark.parametrize("service", [set()], indirect=True)
def test_a_service_that_knows_nothing_is_a_notice(service: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(service, *beside(0)) == 0
    assert "NOTICE: packages were not audited" in capsys.readouterr().out


def test_a_service_that_is_away_is_a_notice(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]

    assert run(f"http://127.0.0.1:{port}/v1/query", *beside(0)) == 0
    assert "NOTICE: packages were not audited" in capsys.readouterr().out


def test_a_service_that_never_answers_is_a_notice(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        code = run(f"http://127.0.0.1:{silent.getsockname()[1]}/v1/query", "--seconds=2", *beside(0))

    assert code == 0
    assert time.monotonic() - begun < 10
    assert "it did not answer in time" in capsys.readouterr().out


def test_a_vulnerability_that_is_accepted_does_not_fail() -> None:
    vulnerability = {"id": "PYSEC-2000-1", "aliases": ["CVE-2000-1"], "fix_versions": []}
    sample = {"name": audit.SAMPLE[0], "version": audit.SAMPLE[1], "vulns": [vulnerability]}
    report = json.dumps({"dependencies": [sample, {"name": "a", "version": "1", "vulns": [vulnerability]}]})

    assert audit.judge(report, "", accepted={}).is_bad
    assert not audit.judge(report, "", accepted={"CVE-2000-1": "not used"}).is_bad


def test_packages_that_the_service_does_not_have_are_named() -> None:
    sample = {"name": audit.SAMPLE[0], "version": audit.SAMPLE[1], "vulns": [{"id": "1", "aliases": []}]}
    report = json.dumps({"dependencies": [sample, {"name": "a", "skip_reason": "a (1) is not found"}]})

    assert "not audited: a (1) is not found" in audit.judge(report, "", accepted={}).text


# Further barriers between a forged package and the operator, and the place of generated files.


LOCKED = re.compile(r"[A-Za-z0-9._-]+(\[[a-z,]+\])?==[^ ]+( ; [^\\]+)?( --hash=sha256:[0-9a-f]{64})+")


def test_every_locked_package_has_hashes() -> None:
    text = (repository.ROOT / "requirements.lock").read_text().replace(" \\\n   ", "")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]

    assert len(lines) > 30
    assert [line for line in lines if not LOCKED.fullmatch(line)] == []
    assert "--no-build-isolation" in (repository.ROOT / "Makefile").read_text()


def test_definitions_are_written_under_fixed_names(tmp_path: Path) -> None:
    result = click.testing.CliRunner().invoke(main.main, ["crds", "--directory", str(tmp_path)])

    assert result.exit_code == 0
    assert {each.name for each in tmp_path.rglob("*")} == {
        "stacks.hearth.dev.yaml",
        "healthmarks.hearth.dev.yaml",
        "resourcegroups.hearth.dev.yaml",
        "stacksnapshots.hearth.dev.yaml",
        "stackplans.hearth.dev.yaml",
        "stacktemplates.hearth.dev.yaml",
        "stackdefinitions.hearth.dev.yaml",
    }
