"""Any file as a kubeconfig: the result is credentials, or the one error that the program reports to its user."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from hearth.kube.auth import kubeconfig
from hearth.kube.auth.credentials import KubeconfigSource, NoCredentials
from hearth.kube.auth.kubeconfig import InvalidKubeconfig
from hearth.kube.client import http_transport
from support.units import fuzzing
from support.units.fuzzing import JSON, LONG, QUICK

SOUND: dict[str, Any] = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}
CLUSTER = ("server", "tls-server-name", "proxy-url", "certificate-authority-data", "insecure-skip-tls-verify")
USER = ("token", "tokenFile", "client-certificate-data", "client-key-data", "username", "password", "exec")


@st.composite
def files(draw: st.DrawFn) -> bytes:
    """A kubeconfig with anything in some of its places, or damaged."""
    stated = {**SOUND, draw(st.sampled_from([*SOUND, "kind"])): draw(JSON)} if draw(st.booleans()) else dict(SOUND)
    if draw(st.booleans()):
        cluster = {"server": "http://127.0.0.1:1", draw(st.sampled_from(CLUSTER)): draw(JSON)}
        stated["clusters"] = [{"name": "k", "cluster": cluster}]
    if draw(st.booleans()):
        stated["users"] = [{"name": "u", "user": {draw(st.sampled_from(USER)): draw(JSON)}}]
    written = yaml.safe_dump(stated, allow_unicode=True).encode(errors="replace")
    return draw(fuzzing.damaged(written))


def load(raw: bytes) -> None:
    """Only the errors that are promised come out."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config"
        file.write_bytes(raw)
        with contextlib.suppress(InvalidKubeconfig, OSError):
            kubeconfig.find_context([str(file)], None)
        with contextlib.suppress(NoCredentials):
            credentials = KubeconfigSource(paths=(str(file),), context=None, environ={}).load()
            assert credentials.server
            http_transport.make_context(credentials)


def test_any_file_is_survived() -> None:
    QUICK(given(files())(load))()


@pytest.mark.soak
def test_any_file_is_survived_for_long() -> None:
    LONG(given(files())(load))()
