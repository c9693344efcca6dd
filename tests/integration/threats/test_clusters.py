"""Kubeconfigs and servers of tenants: the Stacks of the home cluster do not notice them."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from hearth.model import limits
from support import repository
from support.threats import hostile_server, other_clusters
from support.threats.world import CONFIG_MAPS, STACKS, Rule, Tenant, ThreatWorld, make_config_map, make_stack

CERTIFICATE = repository.DATA / "loopback.pem"
SECRETS = Rule(group="", resources=("secrets",), verbs=("get", "create", "update", "patch"))
LOOPBACK = pytest.mark.operator_options("--allow-loopback-clusters")
CANARIES = 15
QUIET = 1.5
"""Maximum duration of a canary during an attack, as a multiple of the slowest undisturbed one."""
FLOOR = 2.0
"""Seconds below which the machine decides: the hostile servers share its two cores."""
HELD_UP = 5.0
"""Maximum seconds for a canary during lookups of unknown names.

Before the fix, one waited for half a minute, or forever.
"""
MEMORY = 16.0
"""MiB that the home process may grow."""


def encode(content: bytes) -> str:
    return base64.b64encode(content).decode()


def find_certificate() -> bytes:
    """The certificate without its key."""
    text = CERTIFICATE.read_bytes()
    begin = text.index(b"-----BEGIN CERTIFICATE")
    return text[begin : text.index(b"-----END CERTIFICATE-----") + len(b"-----END CERTIFICATE-----\n")]


def write_kubeconfig(port: int, number: int, *, key: bytes = b"") -> str:
    """A unique kubeconfig. key: with a client certificate instead of a token."""
    pair = {"client-certificate-data": encode(find_certificate()), "client-key-data": encode(key)}
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority-data": encode(find_certificate())}
    return json.dumps(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "c", "user": pair if key else {"token": f"token-{number}"}}],
        }
    )


def make_large_key() -> bytes:
    """An RSA key of 32,768 bits: OpenSSL loads it in a millisecond, and signs for ten seconds."""
    p, q = (1 << 16_384) - 1, (1 << 16_384) - 3
    public = rsa.RSAPublicNumbers(65537, p * q)
    numbers = rsa.RSAPrivateNumbers(p=p, q=q, d=p * q - 2, dmp1=p - 2, dmq1=q - 2, iqmp=q - 2, public_numbers=public)
    key = numbers.private_key(unsafe_skip_rsa_key_validation=True)
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def make_encrypted_key() -> bytes:
    """A key with a pass phrase that is not stored anywhere."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))


def attack(tenant: Tenant, kubeconfig: str, number: int, kinds: int) -> None:
    """Create a Stack in the cluster of that kubeconfig, with this number of its kinds."""
    author = tenant.make_account("attacker", STACKS, SECRETS)
    name = f"east-{number}"
    secret: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "stringData": {"value": kubeconfig}}
    author.create({**secret, "metadata": {"name": name, "namespace": tenant.namespace}})
    resources = {
        f"odd{each}": {"manifest": {"apiVersion": f"g{each}.{hostile_server.GROUP}/v1", "kind": f"Odd{each}"}}
        for each in range(kinds)
    }
    if kinds == 1:
        resources |= {f"more{each}": resources["odd0"] for each in range(20)}
    reference = {"secretRef": {"name": name}}
    author.create(make_stack(tenant.namespace, name, resources, kubeConfig=reference))


def measure_canaries(threats: ThreatWorld) -> list[float]:
    """Seconds until each of some new Stacks was complete."""
    return sorted(threats.canary(within=60.0).complete for _ in range(CANARIES))


@contextlib.contextmanager
def twenty_hostile_kubeconfigs(tenants: list[Tenant]) -> Iterator[None]:
    """Kubeconfigs of all kinds at once: three tenants, and a server for each kind of hostility."""
    with contextlib.ExitStack() as servers:
        ports = {
            mode: servers.enter_context(
                hostile_server.run_hostile(CERTIFICATE, mode, kinds=30 if mode == "schemas" else 1)
            )
            for mode in hostile_server.MODES
        }
        modes = [*hostile_server.MODES, *hostile_server.MODES][:16]
        for number, mode in enumerate(modes):
            tenant = tenants[number % len(tenants)]
            attack(tenant, write_kubeconfig(ports[mode], number), number, 30 if mode == "schemas" else 1)
        for number, key in enumerate(
            [make_large_key(), make_large_key(), make_encrypted_key(), make_encrypted_key()], 16
        ):
            attack(tenants[number % len(tenants)], write_kubeconfig(ports["silent"], number, key=key), number, 1)
        yield


@LOOPBACK
def test_twenty_hostile_kubeconfigs_at_once_are_not_noticed_at_home(threats: ThreatWorld) -> None:
    before, memory = measure_canaries(threats), threats.operator.memory
    with twenty_hostile_kubeconfigs([threats.tenant(f"hostile{number}") for number in range(3)]):
        time.sleep(10)
        with threats.operator.listened_to() as silence:
            during = measure_canaries(threats)
        grown = threats.operator.memory - memory
        threats.operator.restart()
        after = threats.canary(within=60.0)
    print(
        f"canary {before[-1]:.2f} s before, {during[-1]:.2f} s beside them (median {before[len(before) // 2]:.2f}, "
        f"{during[len(during) // 2]:.2f}); {after.complete:.2f} s after a restart; "
        f"{grown:+.0f} MiB; /healthz silent {silence.longest:.2f} s"
    )

    assert during[-1] <= max(FLOOR, QUIET * before[-1])
    assert after.complete <= FLOOR * 2
    assert grown <= MEMORY
    assert threats.operator.get("/healthz").is_ok


@pytest.mark.operator_options("--no-other-clusters", "--allow-loopback-clusters")
def test_an_administrator_can_switch_other_clusters_off(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    attack(tenant, write_kubeconfig(1, 0), 0, 1)

    stack = threats.wait_phase(tenant.namespace, "east-0", "CreateFailed")
    ready = next(each for each in stack["status"]["conditions"] if each["type"] == "Ready")
    assert "does not manage objects in other clusters" in ready["message"]
    assert threats.canary().complete < 10.0


@LOOPBACK
def test_n19_many_namespaces_leave_a_cluster_to_others(threats: ThreatWorld) -> None:
    numbers = itertools.count()
    with hostile_server.run_hostile(CERTIFICATE, "silent", kinds=1) as port:
        greedy = [
            threats.tenant(f"greedy{number}") for number in range(limits.CLUSTERS // limits.CLUSTERS_PER_NAMESPACE)
        ]
        for tenant in greedy:
            for number in range(limits.CLUSTERS_PER_NAMESPACE):
                attack(tenant, write_kubeconfig(port, next(numbers)), number, 1)
        names = [f"east-{number}" for number in range(limits.CLUSTERS_PER_NAMESPACE)]
        threats.wait_for(
            lambda: all(threats.find_status(tenant.namespace, name) for tenant in greedy for name in names),
            what="each Stack was seen",
            within=120.0,
        )
        honest = threats.tenant("honest")
        account = honest.make_account("east", CONFIG_MAPS)
        content = other_clusters.write_own(threats, account.account, namespace=honest.namespace)
        metadata = {"name": "east", "namespace": honest.namespace}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": content}}
        threats.api.create(secret)
        resources = {"a": make_config_map("a", {"k": "v"})}
        threats.api.create(make_stack(honest.namespace, "shop", resources, kubeConfig={"secretRef": {"name": "east"}}))

        threats.wait_phase(honest.namespace, "shop", "CreateComplete", within=30.0)
        assert threats.canary().complete < HELD_UP
    refused = [
        each
        for tenant in greedy
        for each in threats.api.list("Stack", tenant.namespace)
        if "other clusters, and at most" in json.dumps(each["status"])
    ]
    assert refused, "the limit was never reached, so that nothing was shown"


@contextlib.contextmanager
def run_silent_name_server(number: int) -> Iterator[str]:
    """Run a name server that receives queries and never responds; yields its address. number: unique to the test."""
    address = f"127.0.53.{number}"
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        listener.bind((address, 53))
        yield address


def write_named(host: str, number: int) -> str:
    """A kubeconfig that names its server only by host name."""
    whole = json.loads(write_kubeconfig(6443, number))
    whole["clusters"][0]["cluster"]["server"] = f"https://{host}:6443"
    return json.dumps(whole)


@pytest.mark.parametrize("number", [4, 20])
def test_names_that_no_server_answers_for_hold_up_nobody(threats: ThreatWorld, tmp_path: Path, number: int) -> None:
    resolver = tmp_path / "resolv.conf"
    command = 'mount --bind "$0" /etc/resolv.conf && exec "$@"'
    program = ("unshare", "--mount", "sh", "-c", command, str(resolver), *threats.operator.program)
    with run_silent_name_server(number) as address:
        resolver.write_text(f"nameserver {address}\noptions timeout:5 attempts:2\n")
        threats.operator.program = program
        threats.operator.restart()
        before = measure_canaries(threats)
        tenants = [threats.tenant(f"named{each}") for each in range(2)]
        for each in range(number):
            kubeconfig = write_named(f"dead-{each}.example.com", each)
            attack(tenants[each % 2], kubeconfig, each, 1)
        named = {"metadata": {"name": "east-0", "namespace": tenants[0].namespace}}
        threats.wait_for(lambda: threats.find_status(tenants[0].namespace, "east-0").get("phase"), what=str(named))
        time.sleep(5)
        beside = measure_canaries(threats)
        service = {"manifest": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}}
        other = threats.tenant("other")
        threats.api.create(make_stack(other.namespace, "shop", {"web": service}))
        threats.wait_phase(other.namespace, "shop", "CreateComplete", within=10.0)
        threats.operator.restart()
        after = measure_canaries(threats)

    assert beside[len(beside) // 2] < max(QUIET * before[-1], FLOOR), (before, beside)
    assert max(beside[-1], after[-1]) < HELD_UP, (before, beside, after)
