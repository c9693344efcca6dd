"""Credentials: their sources, the files they come from, and detection of changed files."""

from __future__ import annotations

import base64
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from hearth.kube.auth import credentials as credentials_module
from hearth.kube.auth.credentials import Credentials, KubeconfigSource, NoCredentials, ServiceAccountSource

IN_CLUSTER = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443"}


def write_kubeconfig(path: Path, *, user: Mapping[str, Any], cluster: Mapping[str, Any] | None = None) -> str:
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "clusters": [{"name": "one", "cluster": {"server": "https://example.test:6443", **(cluster or {})}}],
        "users": [{"name": "one", "user": dict(user)}],
    }
    path.write_text(yaml.safe_dump(content))
    return str(path)


def load(path: str, *, context: str | None = None, environ: Mapping[str, str] | None = None) -> Credentials:
    """The credentials of that kubeconfig."""
    return KubeconfigSource(paths=(path,), context=context, environ=environ or {}).load()


def encoded(text: str) -> str:
    """Encode data as inline data of a kubeconfig."""
    return base64.b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    ("kubeconfig", "context", "environ", "expected"),
    [
        pytest.param("/a:b", None, IN_CLUSTER, ("/a:b",), id="an explicit file wins over the pod, and is one file"),
        pytest.param(None, None, {"KUBECONFIG": "/a:/b"}, ("/a", "/b"), id="the variable is a list"),
        pytest.param(None, None, {"KUBECONFIG": ":/b:"}, ("/b",), id="empty entries of the list count for nothing"),
        pytest.param(None, None, {}, ("~/.kube/config",), id="else the usual place"),
        pytest.param(None, "prod", IN_CLUSTER, ("~/.kube/config",), id="only a kubeconfig has contexts"),
    ],
)
def test_which_kubeconfig_is_taken(
    kubeconfig: str | None, context: str | None, environ: Mapping[str, str], expected: tuple[str, ...]
) -> None:
    """An explicit setting wins; otherwise the rules of kubectl apply."""
    found = credentials_module.find_source(kubeconfig=kubeconfig, context=context, environ=environ)
    assert isinstance(found, KubeconfigSource)
    assert (expected, context) == (found.paths, found.context)


def test_a_pod_takes_its_own_account() -> None:
    environ = {**IN_CLUSTER, "KUBECONFIG": "/a"}
    assert isinstance(
        credentials_module.find_source(kubeconfig=None, context=None, environ=environ), ServiceAccountSource
    )


def test_the_service_account_is_read_as_mounted(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc\n")
    (tmp_path / "ca.crt").write_text("PEM")
    found = ServiceAccountSource(environ=IN_CLUSTER, folder=tmp_path).load()
    assert (found.server, found.authorization, found.authority) == ("https://10.0.0.1:443", "Bearer abc", b"PEM")
    assert set(found.files) == {str(tmp_path / "token"), str(tmp_path / "ca.crt")}


def test_an_ipv6_service_is_written_in_brackets(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc")
    (tmp_path / "ca.crt").write_text("PEM")
    environ = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "6443"}
    assert ServiceAccountSource(environ=environ, folder=tmp_path).load().server == "https://[fd00::1]:6443"


def test_a_pod_without_a_token_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoCredentials, match=r"ca\.crt.*--kubeconfig"):
        ServiceAccountSource(environ=IN_CLUSTER, folder=tmp_path).load()


def test_a_rotated_token_makes_credentials_stale(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("abc")
    (tmp_path / "ca.crt").write_text("PEM")
    source = ServiceAccountSource(environ=IN_CLUSTER, folder=tmp_path)
    before = source.load()
    assert not credentials_module.is_stale(before)
    token.write_text("def")
    os.utime(token, (1, 1))
    assert credentials_module.is_stale(before)
    assert source.load().authorization == "Bearer def"


@pytest.mark.parametrize(
    ("seconds_left", "expected"),
    [pytest.param(3600, False, id="an hour left"), pytest.param(30, True, id="about to end")],
)
def test_credentials_that_end_are_stale_shortly_before(seconds_left: float, *, expected: bool) -> None:
    found = Credentials(server="https://a", expires_at=time.time() + seconds_left)
    assert credentials_module.is_stale(found) == expected


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """A separate folder for temporary files of this test."""
    usual, own = tempfile.tempdir, tmp_path / "temporary"
    own.mkdir()
    tempfile.tempdir = str(own)
    yield own
    tempfile.tempdir = usual


def test_inline_certificates_are_read_and_leave_no_file(tmp_path: Path, temporary: Path) -> None:
    user = {"client-certificate-data": encoded("CERT"), "client-key-data": encoded("KEY")}
    path = write_kubeconfig(
        tmp_path / "config", user=user, cluster={"certificate-authority-data": encoded("CA"), "tls-server-name": "api"}
    )
    found = load(path)
    assert (found.server, found.authority, found.certificate, found.key, found.server_name) == (
        "https://example.test:6443",
        b"CA",
        b"CERT",
        b"KEY",
        "api",
    )
    assert list(temporary.rglob("*")) == []
    assert set(found.files) == {path}
    assert load(path).key == b"KEY"


def test_files_are_relative_to_the_kubeconfig_and_watched(tmp_path: Path) -> None:
    for name in ("ca", "cert", "key"):
        (tmp_path / name).write_text(name.upper())
    path = write_kubeconfig(
        tmp_path / "config",
        user={"client-certificate": "cert", "client-key": "key"},
        cluster={"certificate-authority": "ca"},
    )
    found = load(path)
    assert (found.authority, found.certificate, found.key) == (b"CA", b"CERT", b"KEY")
    assert set(found.files) == {str(tmp_path / name) for name in ("config", "ca", "cert", "key")}


def test_a_token_file_is_read_and_watched(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc")
    found = load(write_kubeconfig(tmp_path / "config", user={"tokenFile": "token"}))
    assert found.authorization == "Bearer abc"
    assert str(tmp_path / "token") in found.files


def test_a_basic_login_and_an_unverified_server(tmp_path: Path) -> None:
    user = {"username": "me", "password": "secret"}
    found = load(write_kubeconfig(tmp_path / "config", user=user, cluster={"insecure-skip-tls-verify": True}))
    assert found.authorization == f"Basic {encoded('me:secret')}"
    assert not found.is_verified


def test_an_exec_plugin_gives_a_token_and_when_it_ends(tmp_path: Path) -> None:
    user = {"exec": plugin(tmp_path, '"status": {"token": "abc", "expirationTimestamp": "2030-01-01T00:00:00Z"}')}
    found = load(write_kubeconfig(tmp_path / "config", user=user))
    assert (found.authorization, found.expires_at) == ("Bearer abc", 1893456000.0)


def test_an_exec_plugin_that_fails_is_named(tmp_path: Path) -> None:
    user = {"exec": plugin(tmp_path, '"status": {}')}
    with pytest.raises(NoCredentials, match=r"plugin\.sh"):
        load(write_kubeconfig(tmp_path / "config", user=user))


def test_an_exec_plugin_gives_a_certificate(tmp_path: Path) -> None:
    user = {"exec": plugin(tmp_path, '"status": {"clientCertificateData": "CERT", "clientKeyData": "KEY"}')}
    found = load(write_kubeconfig(tmp_path / "config", user=user))
    assert (found.certificate, found.key, found.authorization) == (b"CERT", b"KEY", None)


def test_an_exec_plugin_gets_the_cluster_where_it_asks(tmp_path: Path) -> None:
    entry = plugin(tmp_path, '"status": {"token": "abc"}')
    script = tmp_path / "plugin.sh"
    answer = script.read_text().partition("\n")[2]
    script.write_text(f'#!/bin/sh\necho "$1 $WHO $KUBERNETES_EXEC_INFO" > {tmp_path}/reported\n{answer}')
    entry |= {"command": "./plugin.sh", "args": ["login"], "env": [{"name": "WHO", "value": "me"}]}
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    cluster = {"certificate-authority-data": encoded("CA"), "extensions": [extension]}
    load(write_kubeconfig(tmp_path / "config", user={"exec": {**entry, "provideClusterInfo": True}}, cluster=cluster))
    argument, variable, reported = (tmp_path / "reported").read_text().split(" ", 2)
    spec = json.loads(reported)["spec"]
    assert (argument, variable, spec["interactive"]) == ("login", "me", False)
    assert spec["cluster"] == {
        "server": "https://example.test:6443",
        "certificate-authority-data": encoded("CA"),
        "config": {"audience": "x"},
    }


@pytest.mark.parametrize(
    ("script", "words"),
    [
        pytest.param("echo sorry >&2; exit 3", "exited with code 3: sorry", id="fails"),
        pytest.param("echo nonsense", "9 bytes that are not an ExecCredential", id="no JSON"),
        pytest.param("""echo '{"apiVersion": "other/v1"}'""", "answered with other/v1", id="another version"),
    ],
)
def test_what_an_exec_plugin_does_wrong_is_reported(tmp_path: Path, script: str, words: str) -> None:
    entry = plugin(tmp_path, "")
    (tmp_path / "plugin.sh").write_text(f"#!/bin/sh\n{script}\n")
    with pytest.raises(NoCredentials, match=words):
        load(write_kubeconfig(tmp_path / "config", user={"exec": entry}))


def test_an_exec_plugin_that_is_not_there_is_reported_with_how_to_get_it(tmp_path: Path) -> None:
    entry = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/nowhere/login", "installHint": "get it at x"}
    with pytest.raises(NoCredentials, match=r"'/nowhere/login' cannot be run: .*; get it at x"):
        load(write_kubeconfig(tmp_path / "config", user={"exec": entry}))


def test_an_old_provider_still_logs_in(tmp_path: Path) -> None:
    config = {"access-token": "abc", "expiry": "2099-01-01T00:00:00Z"}
    user = {"auth-provider": {"name": "gcp", "config": config}}
    found = load(write_kubeconfig(tmp_path / "config", user=user))
    assert (found.authorization, found.expires_at) == ("Bearer abc", 4070908800.0)


def plugin(folder: Path, fields: str) -> dict[str, Any]:
    """The entry of a kubeconfig for an exec plugin that answers with these fields."""
    api_version = "client.authentication.k8s.io/v1"
    script = folder / "plugin.sh"
    script.write_text(f"""#!/bin/sh\necho '{{"apiVersion": "{api_version}", "kind": "ExecCredential", {fields}}}'\n""")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"apiVersion": api_version, "command": str(script), "interactiveMode": "Never"}


def test_another_context_can_be_chosen(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", user={"token": "abc"})
    assert load(path, context="one").authorization == "Bearer abc"
    with pytest.raises(NoCredentials, match=r"config.*two"):
        load(path, context="two")


def test_a_context_without_a_user_is_anonymous(tmp_path: Path) -> None:
    path = tmp_path / "config"
    write_kubeconfig(path, user={})
    content = yaml.safe_load(path.read_text())
    content["users"] = []
    path.write_text(yaml.safe_dump(content))
    assert load(str(path)).authorization is None


@pytest.mark.parametrize(
    "content", [pytest.param("", id="empty"), pytest.param("a: [", id="not YAML"), pytest.param("[1]", id="a list")]
)
def test_a_broken_kubeconfig_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(NoCredentials, match=str(path)):
        load(str(path))


def test_a_missing_kubeconfig_is_named() -> None:
    with pytest.raises(NoCredentials, match=r"/nowhere/config; pass one with --kubeconfig"):
        load("/nowhere/config")


def test_several_kubeconfigs_are_merged_and_missing_ones_left_out(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", user={"token": "abc"})
    found = KubeconfigSource(paths=("/nowhere", path), context=None, environ={}).load()
    assert found.authorization == "Bearer abc"


def test_of_several_kubeconfigs_the_first_that_says_something_counts(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "token").write_text("abc")
    first, second = tmp_path / "first", tmp_path / "other" / "second"
    write_kubeconfig(second, user={"tokenFile": "token"})
    first.write_text("clusters: [{name: one, cluster: {server: 'https://first.test/'}}]")
    found = KubeconfigSource(paths=(str(first), str(second)), context=None, environ={}).load()
    assert (found.server, found.authorization) == ("https://first.test", "Bearer abc")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("{}", "no current context; set --context", id="not stated"),
        pytest.param("current-context: x", "no context 'x'; existing contexts: none", id="a context that is not there"),
        pytest.param(
            "{current-context: x, contexts: [{name: x, context: {cluster: y}}]}",
            "cluster 'y' of the context 'x' has no server",
            id="a cluster that is not there",
        ),
    ],
)
def test_what_a_kubeconfig_lacks_is_reported(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "config").write_text(content)
    with pytest.raises(NoCredentials, match=words):
        load(str(tmp_path / "config"))


@pytest.mark.parametrize(
    ("server", "stated", "environ", "expected"),
    [
        pytest.param("https://a.test", None, {"HTTPS_PROXY": "http://p"}, "http://p", id="by the environment"),
        pytest.param("https://a.test", None, {"https_proxy": "http://p"}, "http://p", id="in small letters"),
        pytest.param("https://a.test", None, {"HTTP_PROXY": "http://p"}, None, id="not the one for plain HTTP"),
        pytest.param("https://a.test", "http://q", {"HTTPS_PROXY": "http://p"}, "http://q", id="stated wins"),
        pytest.param("https://127.0.0.1:6443", None, {"HTTPS_PROXY": "http://p"}, None, id="never for this machine"),
        pytest.param("https://localhost", None, {"HTTPS_PROXY": "http://p"}, None, id="nor by its name"),
        pytest.param(
            "https://x.a.test", None, {"HTTPS_PROXY": "http://p", "NO_PROXY": "b.test, .a.test"}, None, id="a domain"
        ),
        pytest.param(
            "https://xa.test", None, {"HTTPS_PROXY": "http://p", "NO_PROXY": "a.test"}, "http://p", id="another domain"
        ),
        pytest.param(
            "https://10.1.2.3", None, {"HTTPS_PROXY": "http://p", "NO_PROXY": "10.0.0.0/8"}, None, id="a network"
        ),
        pytest.param("https://a.test", None, {"HTTPS_PROXY": "http://p", "NO_PROXY": "*"}, None, id="none at all"),
    ],
)
def test_which_proxy_is_taken(
    tmp_path: Path, server: str, stated: str | None, environ: Mapping[str, str], expected: str | None
) -> None:
    """The kubeconfig's proxy, otherwise the environment's, as in kubectl."""
    cluster = {"server": server} | ({"proxy-url": stated} if stated else {})
    path = write_kubeconfig(tmp_path / "config", user={"token": "abc"}, cluster=cluster)
    assert load(path, environ=environ).proxy == expected


def test_a_proxy_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", user={}, cluster={"proxy-url": "socks5://p:1080"})
    with pytest.raises(NoCredentials, match="socks5://p:1080"):
        load(path)


def test_whom_a_user_acts_as(tmp_path: Path) -> None:
    path = write_kubeconfig(tmp_path / "config", user={"token": "t", "as": "ada"})
    source = KubeconfigSource(paths=(path,), context=None, environ={})
    assert source.load().user == "ada"
    assert credentials_module.ImpersonatingSource(inner=source, user="bob").load().user == "bob"
