"""Releases of Helm in their Secrets, also hostile ones."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import orjson
import pytest

from hearth.cli.stack_access import helm_releases
from hearth.model import limits
from hearth.model.errors import InvalidDefinition


def make(content: bytes, *, version: str = "1", status: str = "deployed") -> dict[str, Any]:
    """A Secret with that content, encoded as Helm and the API server do it."""
    return {
        "type": "helm.sh/release.v1",
        "metadata": {"name": f"v{version}", "labels": {"version": version, "status": status}},
        "data": {"release": base64.b64encode(base64.b64encode(content)).decode()},
    }


def test_the_newest_deployed_revision_counts() -> None:
    """By number, not by name; others and odd ones do not."""
    secrets = [make(b"", version=version) for version in ("9", "10", "x")] + [make(b"", version="11", status="failed")]

    found = helm_releases.find_deployed([*secrets, {**make(b"", version="12"), "type": "Opaque"}])

    assert found == secrets[1]
    assert helm_releases.find_deployed([]) is None


def test_the_manifest_and_its_hooks_are_read() -> None:
    """Hooks are no part of the manifest."""
    hooks = [{"kind": "Job", "name": "migrate", "events": ["pre-upgrade", "post-install"]}, {"kind": 7}, "x"]
    content = orjson.dumps({"manifest": "kind: ConfigMap", "hooks": hooks})

    release = helm_releases.parse(make(gzip.compress(content)))

    assert release.text.content == "kind: ConfigMap"
    assert release.hooks == ("job/migrate (pre-upgrade, post-install)", "7/None")


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"{}", id="not compressed"),
        pytest.param(gzip.compress(b"{}")[:-9], id="cut"),
        pytest.param(gzip.compress(b"[" * 100_000), id="deep"),
        pytest.param(gzip.compress(b"[]"), id="a list"),
        pytest.param(gzip.compress(b'{"manifest": {}}'), id="no text"),
        pytest.param(gzip.compress(bytes(limits.HELM_RELEASE_BYTES + 1), compresslevel=1), id="a bomb"),
    ],
)
def test_what_is_no_release_is_refused(content: bytes) -> None:
    """With the name of the Secret, and within bounds."""
    with pytest.raises(InvalidDefinition, match="secret/v1: holds no release of Helm"):
        helm_releases.parse(make(content))
