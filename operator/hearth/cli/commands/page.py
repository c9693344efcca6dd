"""`hearth page`: serves the page of `kubectl stack ui` for a team."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hearth import settings as settings_module
from hearth.cli.command_classes import example_command
from hearth.cli.commands.run import ADDRESS, DURATION
from hearth.model import errors

if TYPE_CHECKING:
    from hearth.cli.team_page.team_server import PageOptions
    from hearth.cli.team_page.user_sessions import SessionOptions
    from hearth.settings import Address

flag = functools.partial(click.option, show_envvar=True)
FILE = click.Path(dir_okay=False, path_type=Path)


@example_command(
    "hearth page --url https://hearth.example.com --tls-certificate tls.crt --tls-key tls.key",
    "hearth page --url https://hearth.example.com --plain-http --trust-forwarded-for --read-only",
)
@flag(
    "--url",
    "urls",
    multiple=True,
    required=True,
    help="URL under which browsers reach the page, e.g. https://hearth.example.com. Requests with another host are rejected. "
    "Can be repeated.",
)
@flag("--address", type=ADDRESS, default="0.0.0.0:8443", show_default=True, help="Address to listen on.")
@flag("--tls-certificate", type=FILE, help="File with the certificate chain (PEM). It is loaded again when it changes.")
@flag("--tls-key", type=FILE, help="File with the key of the certificate (PEM).")
@flag("--plain-http", is_flag=True, help="Listen without TLS, behind a proxy that terminates it.")
@flag(
    "--trust-forwarded-for",
    is_flag=True,
    help="Take the address of a client, whose failed sign-ins are counted, from the last entry of X-Forwarded-For. Use this "
    "only if all requests pass a proxy that adds this entry.",
)
@flag("--server", help="URL of the API server. Default: the server of the cluster that the Pod runs in.")
@flag(
    "--certificate-authority",
    type=FILE,
    help="File with the certificates (PEM) that verify the API server. Default: the system's certificates.",
)
@flag(
    "--key-file",
    type=FILE,
    help="File with at least 32 random bytes, which encrypt the cookies of signed-in users. Replicas need the same file. "
    "Default: a random key, so a restart signs everyone out.",
)
@flag(
    "--session-duration",
    type=DURATION,
    default="8h",
    show_default=True,
    help="Time until users have to sign in again. The expiration of a token ends a session earlier.",
)
@flag(
    "--sign-out-path",
    default="",
    help="Path of an authenticating proxy that signs users out, e.g. /oauth2/sign_out for oauth2-proxy. The page links to it.",
)
@flag("--read-only", is_flag=True, help="Show Stacks, but change nothing.")
@flag(
    "--http-address",
    type=ADDRESS,
    default="0.0.0.0:8080",
    show_default=True,
    help="Address of /healthz, /readyz and /metrics.",
)
@flag(
    "--log-format",
    type=click.Choice(["text", "json"], case_sensitive=False),
    default="json",
    show_default=True,
    help="Plain text, or one JSON object per line.",
)
@flag(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    default="info",
    show_default=True,
    help="Minimum severity of log messages.",
)
def page(  # noqa: PLR0913 -- each is an option
    urls: tuple[str, ...],
    address: Address,
    tls_certificate: Path | None,
    tls_key: Path | None,
    server: str | None,
    certificate_authority: Path | None,
    key_file: Path | None,
    session_duration: timedelta,
    sign_out_path: str,
    http_address: Address,
    log_format: settings_module.LogFormat,
    log_level: settings_module.LogLevel,
    *,
    plain_http: bool,
    trust_forwarded_for: bool,
    read_only: bool,
) -> None:
    """Serve the page of `kubectl stack ui` for a team, in the cluster.

    Each request to the API server carries the token of the user who sent it: from the header Authorization of an
    authenticating proxy, or from the sign-in page. The page itself has no permissions, and refuses to start with a
    ServiceAccount token.
    """
    import uvloop

    from hearth.cli.team_page import request_rules, sealed_cookies, team_server, user_sessions
    from hearth.serve import logs

    if (tls_certificate is None or tls_key is None) != plain_http or (tls_certificate is None) != (tls_key is None):
        raise click.UsageError(
            "set --tls-certificate and --tls-key, or --plain-http if a proxy in front of the page terminates TLS"
        )
    if sign_out_path and request_rules.find_local_path(sign_out_path) != sign_out_path:
        raise click.UsageError(
            f"--sign-out-path {sign_out_path!r} is no path on this host; write it as /oauth2/sign_out"
        )
    logs.configure(format_=log_format, level=log_level)
    try:
        team_server.check_no_token()
        key = sealed_cookies.read_key(key_file) if key_file is not None else sealed_cookies.make_key()
        options = team_server.PageOptions(
            addresses=[request_rules.parse_address(url) for url in urls],
            address=address,
            http_address=http_address,
            key=key,
            certificate=tls_certificate,
            certificate_key=tls_key,
            session_seconds=session_duration.total_seconds(),
            is_read_only=read_only,
            trusts_forwarded_for=trust_forwarded_for,
            sign_out_path=sign_out_path,
        )
        api_server = user_sessions.ApiServer(
            url=(server or find_server(os.environ)).rstrip("/"), authority=certificate_authority
        )
        api_server.read_authority()
        session_options = user_sessions.SessionOptions(
            server=api_server,
            make_action_token=key.make_action_token,
            is_read_only=read_only,
            sign_out_path=sign_out_path,
        )
        # With asyncio's own loop, each TLS connection to the API server takes 0.5 MiB.
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(serve(options, session_options))
    except errors.HearthError as error:
        raise click.ClickException(str(error)) from error


def find_server(environ: Mapping[str, str]) -> str:
    """Return the URL of the API server of the Pod's cluster."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST", ""), environ.get("KUBERNETES_SERVICE_PORT", "443")
    if not host:
        raise click.UsageError("outside of a cluster, set --server to the URL of the API server")
    return f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"


async def serve(options: PageOptions, session_options: SessionOptions) -> None:
    """Serve until SIGTERM or SIGINT."""
    from hearth.cli.team_page import team_server

    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await team_server.serve_until(options, session_options, stop)
