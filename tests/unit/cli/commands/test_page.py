"""`hearth page`: options that cannot work are refused before it serves."""

from __future__ import annotations

from pathlib import Path

import click.testing
import pytest

from hearth.cli import main
from hearth.cli.team_page import team_server
from support.units import restored_logging

URL = "--url=https://hearth.example.com"
PLAIN = (URL, "--plain-http", "--server=https://127.0.0.1:1")


def run(*arguments: str) -> click.testing.Result:
    """Run the command in this process."""
    with restored_logging.restored_logging():
        return click.testing.CliRunner().invoke(main.main, ["page", *arguments], env={"KUBERNETES_SERVICE_HOST": ""})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param((), "Missing option '--url'", id="no URL"),
        pytest.param((URL,), "set --tls-certificate and --tls-key, or --plain-http", id="neither TLS nor plain HTTP"),
        pytest.param(
            (URL, "--tls-certificate=a"), "set --tls-certificate and --tls-key", id="a certificate without key"
        ),
        pytest.param(
            (*PLAIN, "--tls-certificate=a", "--tls-key=b"),
            "set --tls-certificate and --tls-key",
            id="TLS and plain HTTP",
        ),
        pytest.param(("--url=http://hearth.example.com", *PLAIN[1:]), "has no TLS", id="a URL without TLS"),
        pytest.param((URL, "--plain-http"), "set --server to the URL of the API server", id="outside of a cluster"),
        pytest.param((*PLAIN, "--certificate-authority=/missing"), "cannot read the certificate", id="no authority"),
        pytest.param((*PLAIN, "--key-file=/missing"), "cannot read the key file", id="no key"),
        pytest.param(
            (*PLAIN, "--sign-out-path=//evil.example"), "is no path on this host", id="a sign-out on another host"
        ),
        pytest.param((*PLAIN, "--key-file={short}"), "at least 32 random ones", id="a short key"),
    ],
)
def test_options_that_cannot_work_are_refused(tmp_path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    short = tmp_path / "key"
    short.write_text("secret")

    result = run(*(argument.replace("{short}", str(short)) for argument in arguments))

    assert result.exit_code != 0
    assert sentence in " ".join(result.output.split())
    assert "secret" not in result.output


def test_a_pod_with_a_token_does_not_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("token-of-the-pod")
    check = team_server.check_no_token
    monkeypatch.setattr(team_server, "check_no_token", lambda: check(tmp_path))

    result = run(*PLAIN)

    assert result.exit_code == 1
    assert "must not have rights of its own" in " ".join(result.output.split())
    assert "token-of-the-pod" not in result.output
