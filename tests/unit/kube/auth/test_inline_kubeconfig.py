"""Tenants' kubeconfigs with keys and certificates: the parts that are used, and the parts that are rejected."""

from __future__ import annotations

import base64
import copy
import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from hearth.kube.auth import inline_kubeconfig
from hearth.model import errors, limits

CANARY = "canary-token-0123456789"
KEY = "-----BEGIN PRIVATE KEY-----\nCanaryCanaryCanaryCanary\n-----END PRIVATE KEY-----\n"
HOSTILE = "⚠ hostile"


def encode(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def make_pem(content: str) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{content}\n-----END CERTIFICATE-----\n"


VALID: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {},
    "current-context": "admin@east",
    "contexts": [
        {"name": "other", "context": {"cluster": "west", "user": "x"}},
        {"name": "admin@east", "context": {"cluster": "east", "user": "admin"}},
    ],
    "clusters": [
        {
            "name": "east",
            "cluster": {
                "server": "https://east.example.com:6443/",
                "certificate-authority-data": encode(make_pem("CA")),
            },
        }
    ],
    "users": [{"name": "admin", "user": {"token": CANARY}}],
}


def change(**changed: Any) -> dict[str, Any]:
    """The valid kubeconfig with changed entries of its cluster, user and context; null removes an entry."""
    made = copy.deepcopy(VALID)
    places = {"cluster": made["clusters"][0], "user": made["users"][0], "context": made["contexts"][1]}
    for sort, entries in changed.items():
        for name, value in entries.items():
            places[sort][sort][name] = value
            if value is None:
                del places[sort][sort][name]
    return made


def parse(content: Any, *, allows_loopback: bool = False) -> inline_kubeconfig.InlineKubeconfig:
    text = content if isinstance(content, str) else yaml.safe_dump(content)
    return inline_kubeconfig.parse(text, allows_loopback=allows_loopback)


def refuse(content: Any) -> str:
    with pytest.raises(errors.KubeconfigRefused) as refused:
        parse(content)
    return str(refused.value)


def test_the_current_context_counts() -> None:
    found = parse(json.dumps(VALID))

    assert (found.credentials.server, found.credentials.authority) == (
        "https://east.example.com:6443",
        make_pem("CA").encode(),
    )
    assert found.credentials.authorization == f"Bearer {CANARY}"
    assert (found.host, found.server, found.namespace) == ("east.example.com:6443", "https://east.example.com:6443", "")
    assert found.credentials.is_foreign
    assert CANARY not in repr(found)


def test_a_client_certificate_needs_its_key() -> None:
    pair = {"token": None, "client-certificate-data": encode(make_pem("CERT")), "client-key-data": encode(KEY)}
    found = parse(change(user=pair))

    assert (found.credentials.certificate, found.credentials.key) == (make_pem("CERT").encode(), KEY.encode())
    assert found.credentials.authorization is None
    assert "CanaryCanaryCanaryCanary" in found.hidden_texts
    assert "needs both" in refuse(change(user={"token": None, "client-certificate-data": encode(make_pem("CERT"))}))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"user": {"exec": {"command": "/bin/sh"}}}, "users[0].user.exec is not allowed: the operator runs no program"),
        ({"user": {"auth-provider": {"name": "oidc"}}}, "users[0].user.auth-provider is not allowed"),
        (
            {"user": {"tokenFile": "/var/run/secrets/token"}},
            "users[0].user.tokenFile is not allowed: the operator reads no",
        ),
        ({"user": {"client-certificate": "/etc/x"}}, "users[0].user.client-certificate is not allowed"),
        ({"user": {"client-key": "/etc/x"}}, "users[0].user.client-key is not allowed"),
        ({"user": {"username": "a", "password": "b"}}, "users[0].user.password is not allowed"),
        ({"user": {"as": "admin"}}, "users[0].user.as is not allowed: impersonation follows from"),
        ({"user": {"as-groups": ["system:masters"]}}, "users[0].user.as-groups is not allowed"),
        ({"user": {"as-uid": "1"}}, "users[0].user.as-uid is not allowed"),
        ({"user": {"as-user-extra": {"a": ["b"]}}}, "users[0].user.as-user-extra is not allowed"),
        ({"user": {HOSTILE: "x"}}, "the operator does not know this field"),
        ({"user": {"token": None}}, "has no token and no client-certificate-data"),
        ({"user": {"token": "a\nX-Injected: b"}}, "users[0].user.token contains characters"),
        ({"user": {"token": 12345678}}, "users[0].user.token contains characters"),
        (
            {"cluster": {"certificate-authority": "/etc/passwd"}},
            "clusters[0].cluster.certificate-authority is not allowed",
        ),
        (
            {"cluster": {"insecure-skip-tls-verify": True}},
            "insecure-skip-tls-verify is not allowed: the server must be",
        ),
        ({"cluster": {"proxy-url": "http://proxy"}}, "clusters[0].cluster.proxy-url is not allowed"),
        ({"cluster": {"certificate-authority-data": "%%%"}}, "certificate-authority-data is not base64"),
        ({"cluster": {"tls-server-name": "a b"}}, "tls-server-name is not a DNS name"),
        (
            {"cluster": {"certificate-authority-data": encode(encode(make_pem("CA")))}},
            "certificate-authority-data holds no PEM block (-----BEGIN …); encode the file once",
        ),
        ({"cluster": {"server": "http://east:6443"}}, "must begin with https://"),
        ({"cluster": {"server": "file:///etc/passwd"}}, "is not a URL"),
        ({"cluster": {"server": "unix:///var/run/docker.sock"}}, "is not a URL"),
        ({"cluster": {"server": "https://user:canary-token-0123456789@east"}}, "only a host, a port and a path"),
        ({"cluster": {"server": "https://east/?a=b"}}, "only a host, a port and a path"),
        ({"cluster": {"server": "https://east\r\nX: y"}}, "is not a URL"),
        ({"cluster": {"server": " https://east"}}, "is not a URL"),
        ({"cluster": {"server": "https://east west"}}, "is not a URL"),
        ({"cluster": {"server": "https://" + "a" * 2000}}, "is not a URL"),
        ({"cluster": {"server": 7}}, "is not a URL"),
        ({"cluster": {"server": None}}, "is not a URL"),
        ({"context": {"namespace": "../kube-system"}}, "contexts[1].context.namespace is not the name of a namespace"),
        ({"context": {"user": "missing"}}, "contexts[1].context.user does not match an entry of users"),
        ({"context": {"cluster": None}}, "contexts[1].context.cluster is not set"),
    ],
)
def test_anything_but_inline_credentials_is_refused(changed: dict[str, Any], said: str) -> None:
    message = refuse(change(**changed))

    assert said in message
    assert CANARY not in message


def test_all_mistakes_come_at_once_each_on_a_line_of_its_own() -> None:
    lines = refuse(change(user={"exec": {"command": "/bin/sh"}, "as": "root"})).splitlines()

    assert lines[0].startswith("users[")
    assert lines[0].endswith("(1 of 2 errors)")
    assert [line.partition(" ")[0] for line in lines[1:]] == ["-"]
    assert {field for line in lines for field in ("user.exec", "user.as") if field in line} == {"user.exec", "user.as"}


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "127.8.9.10", "0.0.0.0", "[::1]", "[::]", "localhost", "LOCALHOST.", "api.localhost"),
        *("169.254.169.254", "[fe80::1]", "[::ffff:127.0.0.1]", "[::ffff:169.254.169.254]", "[fd00:ec2::254]"),
        *("100.100.100.200", "192.0.0.192", "168.63.129.16", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "224.0.0.1"),
        *("[64:ff9b:1::7f00:1]", "[64:ff9b:1:a9fe:a9:fe00::]", "[64:ff9b:1:a9fe:a9:fe00:a00:1]", "[::7f00:1]"),
        *("[64:ff9b:1:7f00:0:100::]", "[64:ff9b:1:567f::1:0:0]", "[64:ff9b:1:1234:7f:0:100:0]"),
        *("[64:ff9b:1:56a9:fe:a9fe::]", "[64:ff9b:1:1234:a9:fea9:fe00:0]", "[64:ff9b:1:1234:a9:fea9:fe00:9]"),
        *("[64:ff9b:1:5664:64:64c8::]", "[64:ff9b:1:1234:ffa9:fea9:fe00:0]", "[64:ff9b:1:1234::a9fe:a9fe]"),
        *("[2001:db8::5efe:7f00:1]", "[2001:db8::200:5efe:a9fe:a9fe]"),
        *("[::ffff:0:127.0.0.1]", "[::ffff:0:a9fe:a9fe]"),
        *("[fd00:ec2::23]", "[fd20:ce::254]", "[fd00:c1::a9fe:a9fe]", "[fd00:42::42]"),
        *("[fd00:a9fe:a9fe::1]", "[fd00:100::100:200]"),
    ],
)
def test_the_operators_own_machine_and_metadata_services_are_refused(host: str) -> None:
    content = change(cluster={"server": f"https://{host}:6443"})

    assert "which no Stack may use" in refuse(content)
    assert parse(content, allows_loopback=True).credentials.is_foreign


@pytest.mark.parametrize(
    "host",
    [
        *("10.0.0.1", "192.168.1.1", "203.0.113.9", "[2001:db8::1]", "[fd12::1]", "kubernetes.default.svc"),
        *("[64:ff9b::a00:1]", "[64:ff9b:1::a00:1]", "[64:ff9b:1:a00:0:100::]", "[::ffff:0:a00:1]", "[fd00:ec3::23]"),
        *("[64:ff9b:1:560a:1:203::]", "[64:ff9b:1:1234:a:102:300:0]", "[64:ff9b:1:e0e0::a00:1]"),
    ],
)
def test_other_addresses_are_allowed(host: str) -> None:
    assert parse(change(cluster={"server": f"https://{host}"})).server == f"https://{host}:443"


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "text", "a: 1\n---\nb: 2", "{", "\x00", "!!python/object/apply:os.system [id]"),
        *("a: &a [*a]", "- " * 50_000, "{" * 5_000, "x" * (limits.KUBECONFIG_BYTES + 1)),
        json.dumps({**VALID, "users": [{"name": str(number), "user": {}} for number in range(1_000)]}),
        json.dumps({**VALID, "users": {"admin": {}}}),
        json.dumps({**VALID, "users": ["admin"]}),
        json.dumps({**VALID, "current-context": None}),
        json.dumps({**VALID, "current-context": ["admin@east"]}),
    ],
    ids=range(16),
)
def test_content_of_any_shape_is_refused_in_one_sentence(text: str) -> None:
    assert len(refuse(text)) < 300


def test_every_mistake_is_told_at_once() -> None:
    message = refuse(change(cluster={"server": "http://a", "proxy-url": "http://b"}, user={"exec": {"command": "x"}}))

    assert all(each in message for each in ("https://", "proxy-url", "exec"))


def test_equal_contents_share_a_key_and_different_ones_do_not() -> None:
    key = parse(VALID).key

    assert parse({**VALID, "contexts": list(reversed(VALID["contexts"]))}).key == key
    others = [
        change(user={"token": "another"}),
        change(cluster={"certificate-authority-data": encode(make_pem("other"))}),
        change(cluster={"server": "https://west.example.com:6443"}),
        change(cluster={"tls-server-name": "east"}),
        change(context={"namespace": "team"}),
        change(user={"client-certificate-data": encode(make_pem("CERT")), "client-key-data": encode(KEY)}),
    ]
    assert len({key, *(parse(each).key for each in others)}) == len(others) + 1


def test_a_server_is_the_same_however_it_is_written() -> None:
    forms = ("https://EAST.example.com:6443", "https://east.example.com:6443/", "HTTPS://east.example.com:6443/?#")
    found = [parse(change(cluster={"server": form})) for form in forms]

    assert {each.server for each in found} == {"https://east.example.com:6443"}
    assert {each.credentials.server for each in found} == {"https://east.example.com:6443"}
    assert (
        parse(change(cluster={"server": "https://east/k8s/clusters/c-1/"})).server
        == "https://east:443/k8s/clusters/c-1"
    )


# Tenants' keys and certificates: their cost is known before they are used.


def write(key: object, *, password: bytes = b"") -> bytes:
    protection = BestAvailableEncryption(password) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)  # type: ignore[attr-defined,no-any-return]  # of any class


def certify(key: ec.EllipticCurvePrivateKey) -> bytes:
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "east")]), datetime.now(UTC)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


P256 = ec.generate_private_key(ec.SECP256R1())


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(rsa.generate_private_key(65537, 2048), id="RSA"),
        pytest.param(P256, id="P-256"),
        pytest.param(ec.generate_private_key(ec.SECP521R1()), id="P-521"),
        pytest.param(ed25519.Ed25519PrivateKey.generate(), id="Ed25519"),
    ],
)
def test_usual_keys_are_used(key: object) -> None:
    assert inline_kubeconfig.find_wrong_key(write(key)) == ""


def make_large_key(bits: int) -> bytes:
    """An RSA key of odd numbers: signing takes longer the larger it is."""
    p, q = (1 << bits // 2) - 1, (1 << bits // 2) - 3
    numbers = rsa.RSAPrivateNumbers(
        p=p, q=q, d=p * q - 2, dmp1=p - 2, dmq1=q - 2, iqmp=q - 2, public_numbers=rsa.RSAPublicNumbers(65537, p * q)
    )
    return write(numbers.private_key(unsafe_skip_rsa_key_validation=True))


@pytest.mark.parametrize(
    ("pem", "said"),
    [
        pytest.param(make_large_key(5120), "is of another kind; use one that is RSA with up to 4096 bits", id="RSA 5,120"),
        pytest.param(make_large_key(16384), "has more than 8192 bytes", id="RSA 16,384"),
        pytest.param(write(dsa.generate_private_key(2048)), "is of another kind", id="DSA"),
        pytest.param(write(ec.generate_private_key(ec.SECP256K1())), "is of another kind", id="another curve"),
        pytest.param(write(P256, password=b"x"), "is encrypted; store it without a pass phrase", id="encrypted"),
        pytest.param(b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "is not a private key", id="nonsense"),
    ],
)  # fmt: skip
def test_other_keys_are_refused_at_once(pem: bytes, said: str) -> None:
    begun = time.process_time()

    found = inline_kubeconfig.find_wrong_key(pem)

    assert said in found
    assert "BEGIN" not in found
    assert time.process_time() - begun < 1.0


def test_certificates_are_read_before_they_are_used() -> None:
    one = certify(P256)
    other = certify(ec.generate_private_key(ec.SECP256K1()))

    assert inline_kubeconfig.find_wrong_certificates(one * 3) == ""
    assert inline_kubeconfig.find_wrong_certificates(b"") == ""
    assert "has 33 PEM blocks" in inline_kubeconfig.find_wrong_certificates(one * 33)
    assert "whose key is of another kind" in inline_kubeconfig.find_wrong_certificates(one + other)
    assert "cannot be read" in inline_kubeconfig.find_wrong_certificates(one.replace(b"M", b"N"))
    assert "is not a certificate" in inline_kubeconfig.find_wrong_certificates(one + write(P256))
