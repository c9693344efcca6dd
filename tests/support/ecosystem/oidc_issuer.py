"""A played OpenID Connect issuer on the loopback interface: discovery, keys, a sign-in page, and signed ID tokens.

The sign-in page asks for no password: it has one link for each user.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import html
import http.server
import json
import re
import secrets
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib import parse

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from support import repository

CERTIFICATE = repository.DATA / "loopback.pem"
CLIENT = "hearth"
KEY_ID = "1"


@dataclasses.dataclass(slots=True)
class Issuer:
    """Its users, and the lifetime of their tokens."""

    users: tuple[str, ...]
    url: str = ""
    lifetime: int = 3_600
    """Seconds until a new ID token expires."""
    tokens: list[str] = dataclasses.field(default_factory=list)
    """All ID tokens that it issued."""
    client_secret: str = dataclasses.field(default_factory=lambda: secrets.token_hex(16))
    _key: rsa.RSAPrivateKey = dataclasses.field(default_factory=lambda: rsa.generate_private_key(65_537, 2_048))
    _logins: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    """By authorization code, the user and the nonce."""

    def discover(self) -> dict[str, Any]:
        """The discovery document."""
        return {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256"],
        }

    def list_keys(self) -> dict[str, Any]:
        """The public key."""
        public = self._key.public_key().public_numbers()
        numbers = {
            name: encode(n.to_bytes((n.bit_length() + 7) // 8)) for name, n in (("n", public.n), ("e", public.e))
        }
        return {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, **numbers}]}

    def log_in(self, query: dict[str, str]) -> str:
        """The address that the browser is sent back to. query: of the sign-in page, with the chosen user."""
        code = secrets.token_urlsafe()
        self._logins[code] = {"email": query["user"], "nonce": query["nonce"]}
        return f"{query['redirect_uri']}?{parse.urlencode({'code': code, 'state': query['state']})}"

    def exchange(self, code: str) -> dict[str, Any]:
        """The tokens for a code, which can be used once."""
        login, now = self._logins.pop(code), int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "sub": login["email"], "email_verified": True, **login}
        token = self.sign({**claims, "iat": now, "exp": now + self.lifetime})
        self.tokens.append(token)
        return {"access_token": code, "id_token": token, "token_type": "Bearer", "expires_in": self.lifetime}

    def sign(self, claims: dict[str, Any]) -> str:
        """A JSON Web Token."""
        parts = ({"alg": "RS256", "typ": "JWT", "kid": KEY_ID}, claims)
        content = ".".join(encode(json.dumps(part).encode()) for part in parts)
        return f"{content}.{encode(self._key.sign(content.encode(), padding.PKCS1v15(), hashes.SHA256()))}"

    def write_configuration(self, file: Path) -> None:
        """The configuration of an API server that trusts this issuer, and calls its users by their addresses."""
        found = re.search("-----BEGIN CERTIFICATE-----.*-----END CERTIFICATE-----", CERTIFICATE.read_text(), re.DOTALL)
        assert found is not None
        issuer = {"url": self.url, "audiences": [CLIENT], "certificateAuthority": found.group()}
        mappings = {"username": {"claim": "email", "prefix": ""}}
        content = {"jwt": [{"issuer": issuer, "claimMappings": mappings}]}
        version = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
        file.write_text(json.dumps(version | content))


def encode(content: bytes) -> str:
    """Base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class IssuerHandler(http.server.BaseHTTPRequestHandler):
    """Answers browsers, the proxy and the API server."""

    issuer: Issuer

    def do_GET(self) -> None:
        path, _, text = self.path.partition("?")
        match path:
            case "/.well-known/openid-configuration":
                self.answer(json.dumps(self.issuer.discover()))
            case "/keys":
                self.answer(json.dumps(self.issuer.list_keys()))
            case "/authorize":
                self.show_sign_in(dict(parse.parse_qsl(text)))
            case _:
                self.answer("", code=404)

    def do_POST(self) -> None:
        """Exchange a code for tokens."""
        form = dict(parse.parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        user = base64.b64encode(f"{CLIENT}:{self.issuer.client_secret}".encode()).decode()
        is_client = form.get("client_secret") == self.issuer.client_secret
        if not is_client and self.headers.get("Authorization") != f"Basic {user}":
            self.answer("", code=401)
            return
        self.answer(json.dumps(self.issuer.exchange(form["code"])))

    def show_sign_in(self, query: dict[str, str]) -> None:
        """The sign-in page, or the way back after a choice."""
        if query.get("user") in self.issuer.users:
            self.answer("", code=302, Location=self.issuer.log_in(query))
            return
        links = (
            f'<a id="{user.partition("@")[0]}" href="?{html.escape(parse.urlencode({**query, "user": user}))}">{user}</a>'
            for user in self.issuer.users
        )
        self.answer(f"<!doctype html><title>Issuer</title><h1>Who are you?</h1>{' '.join(links)}", "text/html")

    def answer(self, text: str, content_type: str = "application/json", *, code: int = 200, **headers: str) -> None:
        """Send an answer."""
        self.send_response(code)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(text.encode())), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 -- the library calls it so
        """Log nothing."""


@contextlib.contextmanager
def serve_issuer(*users: str) -> Iterator[Issuer]:
    """An issuer with these users, which are e-mail addresses."""
    issuer = Issuer(users)
    handler = type("Handler", (IssuerHandler,), {"issuer": issuer})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    issuer.url = f"https://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
