"""oauth2-proxy in front of the page: it signs users in at an issuer, and sends their ID tokens to the page."""

from __future__ import annotations

import contextlib
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import go_programs
from go_programs import Program

from support.ecosystem import oidc_issuer, programs
from support.ecosystem.oidc_issuer import Issuer

PROGRAM = Program(
    name="oauth2-proxy", module=programs.MODULES / "oauth2-proxy", package="github.com/oauth2-proxy/oauth2-proxy/v7"
)
SIGN_OUT = "/oauth2/sign_out"


@contextlib.contextmanager
def run_proxy(issuer: Issuer, folder: Path, *options: str, port: int, upstream: str) -> Iterator[Path]:
    """The proxy at http://localhost:{port}; reports the file of its log. Its start fails if the issuer does not answer.

    folder: for its log; options: further flags; upstream: the page.
    """
    log = folder / "proxy.log"
    command = [
        str(go_programs.build_go_program(PROGRAM)),
        "--provider=oidc",
        f"--oidc-issuer-url={issuer.url}",
        f"--provider-ca-file={oidc_issuer.CERTIFICATE}",
        f"--client-id={oidc_issuer.CLIENT}",
        f"--client-secret={issuer.client_secret}",
        "--code-challenge-method=S256",
        "--insecure-oidc-skip-nonce=false",
        "--scope=openid email",
        "--email-domain=*",
        f"--cookie-secret={secrets.token_hex(16)}",
        "--cookie-secure=false",
        # The live updates of an open page may reach the sign-in as well.
        "--cookie-csrf-per-request",
        "--cookie-csrf-per-request-limit=16",
        "--skip-provider-button",
        "--pass-authorization-header",
        f"--http-address=127.0.0.1:{port}",
        f"--redirect-url=http://localhost:{port}/oauth2/callback",
        f"--upstream={upstream}",
        *options,
    ]
    with log.open("wb") as opened:
        process = subprocess.Popen(command, stdout=opened, stderr=opened)
    try:
        yield log
    finally:
        process.kill()
        process.wait(10)
