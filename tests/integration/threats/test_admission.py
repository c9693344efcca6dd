"""The admission webhook on a real API server: under the shipped rights, with the shipped configurations."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import socket
import ssl
import statistics
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hearth.cli.commands import import_
from hearth.cli.importer import stack_assembly
from hearth.cli.importer.manifest_documents import SourceText
from hearth.kube.webhook import certificates
from hearth.kube.webhook.certificates import CertificateSet
from support import free_port
from support.threats import webhook
from support.threats.api import MERGE, Api, Object, find_path
from support.threats.audit_log import AuditLog
from support.threats.operator import Operator
from support.threats.webhook import Reviewed
from support.threats.world import Rule, Tenant, ThreatWorld, make_config_map, make_stack
from support.units import imported_texts

MARKS = Rule(
    group="hearth.dev", resources=("healthmarks", "stacksnapshots"), verbs=("get", "list", "create", "update", "patch")
)
FINALIZER = "hearth.dev/children"


@pytest.fixture
def reviewed(threats: ThreatWorld) -> Iterator[Reviewed]:
    """The shipped configurations, and an operator that serves them."""
    with webhook.serve(threats) as made:
        yield made


def try_dry_run(api: Api, stack: Object) -> Any:
    """As `kubectl create --dry-run=server`."""
    return api.send("POST", find_path("Stack", stack["metadata"]["namespace"]), body=stack, dryRun="All")


def test_reviews(reviewed: Reviewed) -> None:
    """One denial lists all mistakes, a dry run checks against the live cluster, and probably unintended settings cause
    warnings.
    """
    threats, tenant = reviewed.threats, reviewed.threats.tenant()
    author = tenant.author(MARKS)
    author.create(make_stack(tenant.namespace, "aging", {"a": make_config_map()}))
    check_denial(author, tenant)
    check_dry_run(author, tenant)
    check_sources(author, tenant)
    check_finalizer(threats, author, tenant)
    check_kept_definition(threats, author, tenant)
    check_marks(threats, author, tenant)
    check_snapshots(author, tenant)
    check_boundary(author, tenant)
    check_authors(tenant)
    check_end(threats, author, tenant)
    assert "error" not in {each["level"] for each in threats.operator.read_events()}


def check_denial(author: Api, tenant: Tenant) -> None:
    """A denial lists all mistakes at once, with the texts of the status; nothing is stored."""
    answer = author.try_create(make_stack(tenant.namespace, "wrong", webhook.MISTAKEN))

    assert answer.code == 422
    message = answer.body["message"]
    assert 'admission webhook "stacks.hearth.dev" denied the request: spec.template.resources.' in message
    assert "(1 of 3 errors; " in message.splitlines()[0]
    assert all(f"spec.template.resources.{name}" in message for name in webhook.MISTAKEN)
    assert author.get("Stack", tenant.namespace, "wrong") is None


def check_dry_run(author: Api, tenant: Tenant) -> None:
    """A template is checked against the kinds that the cluster serves."""
    unserved = {"a": {"manifest": {"apiVersion": "example.org/v1", "kind": "Gadget"}}}
    waits = try_dry_run(author, make_stack(tenant.namespace, "dry", unserved))
    mistyped = {"a": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": 5}}}}
    wrong = try_dry_run(author, make_stack(tenant.namespace, "dry", mistyped))
    sound = try_dry_run(author, make_stack(tenant.namespace, "dry", {"a": make_config_map("dry-a")}))

    assert waits.is_accepted
    assert any("does not serve example.org/v1 Gadget" in each for each in waits.warnings)
    assert (wrong.code, "spec.template.resources.a.manifest.data.k" in wrong.text) == (422, True)
    assert (sound.is_accepted, sound.warnings) == (True, ())
    assert author.get("Stack", tenant.namespace, "dry") is None


def check_sources(author: Api, tenant: Tenant) -> None:
    """Missing data that another object may still supply causes only a warning."""
    stack = make_stack(tenant.namespace, "later", {})
    stack["spec"] = {"templateRef": {"kind": "ConfigMap", "name": "later"}}
    answer = try_dry_run(author, stack)

    assert answer.is_accepted, answer.text
    assert any("spec.templateRef: configmap/later does not exist" in each for each in answer.warnings), answer.warnings


def check_finalizer(threats: ThreatWorld, author: Api, tenant: Tenant) -> None:
    """The webhook adds the finalizer at creation, so the operator does not write it."""
    before = threats.operator.read_metric("hearth_api_requests_total", kind="stacks.hearth.dev", verb="patch")
    made = author.create(make_stack(tenant.namespace, "shop", {"a": make_config_map("shop-a")}))

    assert made["metadata"]["finalizers"] == [FINALIZER]
    stack = threats.wait_phase(tenant.namespace, "shop", "CreateComplete")
    assert stack["metadata"]["finalizers"] == [FINALIZER]
    managers = {each["manager"] for each in stack["metadata"]["managedFields"] if each.get("subresource") != "status"}
    assert not any(each.startswith("hearth") for each in managers), managers
    print("writes of the Stack:", threats.operator.read_metric("hearth_api_requests_total", verb="patch") - before)


def check_kept_definition(threats: ThreatWorld, author: Api, tenant: Tenant) -> None:
    """A Stack that became invalid can still be paused, resumed and deleted."""
    namespace = tenant.namespace
    kind = webhook.KINDS[0]
    saved = threats.api.get(kind, "", webhook.NAME)
    threats.api.delete(kind, "", webhook.NAME)
    threats.wait_for(lambda: author.apply(make_stack(namespace, "broken", webhook.MISTAKEN)).is_accepted)
    assert saved is not None
    metadata = {"name": webhook.NAME}
    threats.api.create({**saved, "metadata": metadata})
    threats.wait_for(lambda: try_dry_run(author, make_stack(namespace, "x", webhook.MISTAKEN)).code == 422)

    paused = author.patch("Stack", namespace, "broken", {"spec": {"paused": True}})
    changed = author.patch("Stack", namespace, "broken", {"spec": {"parameters": {"a": 1}}})
    gone = author.delete("Stack", namespace, "broken")

    assert paused.is_accepted, paused.text
    assert any("spec.template.resources.a" in each for each in paused.warnings), paused.warnings
    assert changed.code == 422
    assert gone.is_accepted
    threats.wait_for(lambda: author.get("Stack", namespace, "broken") is None, what="deletion of an invalid Stack")


def check_end(threats: ThreatWorld, author: Api, tenant: Tenant) -> None:
    """An edit cannot delete a Stack at once by setting a lifetime that is shorter than its age."""

    def shorten(lifetime: str) -> str:
        path, body = find_path("Stack", tenant.namespace, "aging"), {"spec": {"expiresAfter": lifetime}}
        return author.send("PATCH", path, body=body, content_type=MERGE, dryRun="All").text

    threats.wait_for(lambda: "so it would be deleted now" in shorten("10s"), what="the Stack is 10 seconds old")
    assert "would be deleted" not in shorten("1h")


def check_marks(threats: ThreatWorld, author: Api, tenant: Tenant) -> None:
    """A mark on a missing object is refused; a mark without a reason gets a warning."""

    def mark(name: str, **spec: Any) -> Any:
        metadata = {"name": name, "namespace": tenant.namespace}
        kind = {"apiVersion": "hearth.dev/v1alpha1", "kind": "HealthMark"}
        return author.try_create({**kind, "metadata": metadata, "spec": {"markUnhealthy": False, **spec}})

    wrong_resource = mark("m1", stackName="shop", resource="b", markUnhealthy=True, reason="slow")
    wrong_stack = mark("m2", stackName="shoop", resource="a", markUnhealthy=True, reason="slow")
    unexplained = mark("m3", stackName="shop", resource="a", markUnhealthy=True)

    assert (wrong_resource.code, wrong_stack.code, unexplained.code) == (422, 422, 201)
    assert "Stack shop has no resource b" in wrong_resource.text
    assert "has no Stack shoop" in wrong_stack.text
    assert any("spec.reason: is missing" in each for each in unexplained.warnings)


def check_snapshots(author: Api, tenant: Tenant) -> None:
    """A snapshot of a missing Stack waits and gets a warning; a snapshot of another Stack is never restored."""
    made = {"apiVersion": "hearth.dev/v1alpha1", "kind": "StackSnapshot", "spec": {"stackName": "nowhere"}}
    answer = author.try_create({**made, "metadata": {"name": "early", "namespace": tenant.namespace}})
    other = make_stack(tenant.namespace, "other", {"a": make_config_map("other-a")}, rollback={"toSnapshot": "early"})
    early = author.try_create(other)
    waits = try_dry_run(author, {**other, "spec": {**other["spec"], "rollback": {"toSnapshot": "later"}}})

    assert answer.is_accepted
    assert any("has no Stack nowhere; the snapshot waits" in each for each in answer.warnings)
    assert early.code == 422
    assert (
        "spec.rollback.toSnapshot: StackSnapshot early is one of Stack nowhere, not of other" in early.body["message"]
    )
    assert any("has no StackSnapshot later" in each for each in waits.warnings)


def check_boundary(author: Api, tenant: Tenant) -> None:
    """A resource outside of the namespace is denied at once, with the remedy."""
    loot = make_config_map("loot")
    loot["manifest"]["metadata"]["namespace"] = "kube-system"
    answer = try_dry_run(author, make_stack(tenant.namespace, "beyond", {"a": loot}))

    assert answer.code == 422
    assert "spec.template.resources.a: is in namespace kube-system, but a Stack can only" in answer.text


def check_authors(tenant: Tenant) -> None:
    """Only authors with access to the ServiceAccount may name it: by impersonation, or by running a Pod as it."""
    stack = make_stack(tenant.namespace, "as", {"a": make_config_map("as-a")}, serviceAccountName="deployer")
    stranger = tenant.author()
    impersonator = tenant.author(Rule(group="", resources=("serviceaccounts",), verbs=("impersonate",)))
    runner = tenant.author(Rule(group="", resources=("pods",), verbs=("create",)))

    refused = try_dry_run(stranger, stack)

    assert refused.code == 422
    assert "cannot use ServiceAccount deployer; this needs the verb impersonate on it" in refused.text
    assert try_dry_run(impersonator, stack).is_accepted
    assert try_dry_run(runner, stack).is_accepted
    assert stranger.get("Stack", tenant.namespace, "as") is None


def test_a_webhook_that_is_down_blocks_nothing(reviewed: Reviewed) -> None:
    threats, tenant = reviewed.threats, reviewed.threats.tenant()
    author = tenant.author()
    threats.operator.kill()

    began = time.monotonic()
    author.create(make_stack(tenant.namespace, "wrong", webhook.MISTAKEN))
    assert time.monotonic() - began < 2.0

    threats.operator.start()
    stack = threats.wait_phase(tenant.namespace, "wrong", "CreateFailed")
    assert "(1 of 3 errors; " in str(stack["status"])


@pytest.mark.long
def test_two_replicas_serve_and_renew_under_load(reviewed: Reviewed, tmp_path: Path) -> None:
    threats, api = reviewed.threats, reviewed.threats.api
    threats.operator.kill()
    first = make_replica(threats.operator, reviewed.port, tmp_path / "first.log")
    second = make_replica(threats.operator, free_port.find_free_port(), tmp_path / "second.log")
    second_port = int(second.options[0].rpartition(":")[2])
    try:
        first.start()
        second.start()
        threats.wait_for(reviewed.is_reviewing, what="the first replica reviews")
        assert (first.read_metric("hearth_leader"), second.read_metric("hearth_leader")) == (1, 0)
        reviewed.point_to(second_port)
        threats.wait_for(
            lambda: str(second_port) in str(reviewed.read_configuration()) and reviewed.is_reviewing(),
            what="the standby reviews",
        )
        first.kill()
        assert reviewed.is_reviewing()
        check_renewal(reviewed, api, second)
    finally:
        first.kill()
        second.kill()


def make_replica(like: Operator, port: int, log_file: Path) -> Operator:
    """One of two replicas."""
    options = (f"--webhook-address=127.0.0.1:{port}", "--leader-election")
    return Operator(checkout=like.checkout, kubeconfig=like.kubeconfig, log_file=log_file, options=options)


def check_renewal(reviewed: Reviewed, api: Api, replica: Operator) -> None:
    """An old certificate is replaced by one of a new authority, while reviews continue without a failure."""
    before = read_certificates(api)
    unreviewed, count, is_done = [], 0, threading.Event()

    def ask() -> None:
        nonlocal count
        while not is_done.is_set():
            count += 1
            if not reviewed.is_reviewing():
                unreviewed.append(time.monotonic())

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        make_old(api)
        reviewed.threats.wait_for(
            lambda: read_certificates(api).certificate not in (before.certificate, make_old(api, is_read=True)),
            within=150,
            what="a renewed certificate",
        )
        reviewed.threats.wait_for(
            lambda: len(replica.read_events("serving the webhook certificate")) >= 2, what="the new one is served"
        )
        seen = count
        reviewed.threats.wait_for(lambda: count > seen + 20, what="reviews with the new certificate")
    finally:
        is_done.set()
        thread.join()
    assert unreviewed == []
    print("reviews during the renewal:", count)


OLD: list[bytes] = []


def make_old(api: Api, *, is_read: bool = False) -> bytes:
    """Put certificates into the Secret that were issued 70 days ago; return the serving certificate as PEM."""
    if not is_read:
        found = read_certificates(api)
        then = datetime.now(UTC) - certificates.SERVING_LIFETIME * 0.8
        old = certificates.renew(CertificateSet(), hosts={"127.0.0.1"}, now=then)
        # The current authority stays trusted, as in a renewal.
        old = dataclasses.replace(old, authorities=old.authorities + found.authorities)
        api.patch("Secret", webhook.SYSTEM, webhook.NAME, {"data": certificates.write_data(old)}).expect()
        OLD.append(old.certificate)
    return OLD[-1]


def read_certificates(api: Api) -> CertificateSet:
    """The Secret as it is now."""
    return certificates.parse_secret(api.get("Secret", webhook.SYSTEM, webhook.NAME))


def test_only_the_api_server_knows_the_path(reviewed: Reviewed) -> None:
    review = b'{"request":{"uid":"u","object":{"metadata":{"namespace":"kube-system","name":"x"}}}}'
    context = ssl.create_default_context(cadata=read_certificates(reviewed.threats.api).authorities.decode())
    for path in ("/", "/stacks.hearth.dev", "/" + "0" * 32 + "/stacks.hearth.dev"):
        request = urllib.request.Request(f"https://127.0.0.1:{reviewed.port}{path}", data=review, method="POST")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(request, context=context, timeout=10)  # noqa: S310 -- https, as written above
    url = reviewed.read_configuration()["webhooks"][0]["clientConfig"]["url"]
    assert len(url.rpartition("/")[0].rpartition("/")[2]) >= 32


@pytest.mark.parametrize(("size", "times", "seconds"), [(4, 300, 0.03), (2000, 5, 1.0)], ids=["small", "large"])
def test_reviews_are_fast(reviewed: Reviewed, size: int, times: int, seconds: float) -> None:
    """Measured in the operator's CPU time, including kopf, TLS and JSON, because other tests share the machine."""
    author, namespace, operator = reviewed.threats.api, reviewed.threats.tenant().namespace, reviewed.threats.operator
    resources = {f"r{at}": make_config_map(f"big-{at}", {"k": "${stack.name}"}) for at in range(size)}
    stack = make_stack(namespace, "big", resources)
    try_dry_run(author, stack).expect()

    before = operator.cpu_seconds
    took = measure(author, stack, times)
    used = (operator.cpu_seconds - before) / times

    median, p99 = statistics.median(took), statistics.quantiles(took, n=100)[98]
    print(f"{size} resources: CPU {used * 1e3:.1f} ms; whole request p50 {median * 1e3:.1f}, p99 {p99 * 1e3:.1f} ms")
    assert used < seconds


def measure(api: Api, stack: Object, times: int) -> list[float]:
    """Seconds of each dry-run creation."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        try_dry_run(api, stack).expect()
        took.append(time.perf_counter() - began)
    return took


SENSITIVE = "xy Correct-Horse-7_Battery!"
UNFIT: dict[str, Object] = {
    "type": {"type": "integer"},
    "pattern": {"type": "string", "pattern": "^[0-9]+$"},
    "choice": {"type": "string", "enum": ["a", "b"]},
    "length": {"type": "string", "maxLength": 3},
    "used": {"type": "string"},
}
"""By Stack name, a sensitive parameter that the value does not match, or whose use fails."""
MENDABLE: Object = {"r": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "${string(params.pw)}"}}}}
"""A resource that is invalid only because of the value."""


def test_no_review_writes_a_sensitive_value_down(reviewed: Reviewed, tmp_path: Path) -> None:
    threats, tenant = reviewed.threats, reviewed.threats.tenant()
    # Other tests on the same control plane let the API server quote the value in answers of its own.
    author, profile, log = tenant.author(), tmp_path / "profile", AuditLog(threats.audit_log)
    threats.operator.options += ("--log-level=debug", f"--profile={profile}")
    threats.operator.restart()
    threats.wait_for(reviewed.is_reviewing, what="the API server asks the webhook")
    metadata = {"name": "db", "namespace": tenant.namespace}
    threats.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"pw": SENSITIVE}})
    broken = {"r": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "${int(params.pw)}"}}}}
    answers = []
    sources: Object = {"parametersFrom": [{"secretRef": {"name": "db"}}]}
    for name, parameter in UNFIT.items():
        template = {"parameters": {"pw": {**parameter, "sensitive": True}}}
        stated = make_stack(tenant.namespace, f"{name}-stated", broken, template=template)
        stated["spec"]["parameters"] = {"pw": SENSITIVE}
        answers.append(author.try_create(stated))
        answers.append(
            author.try_create(make_stack(tenant.namespace, f"{name}-read", broken, template=template, **sources))
        )
        # Another value in the Secret would make it valid, so it is stored with a warning.
        answers.append(
            author.try_create(make_stack(tenant.namespace, f"{name}-unfit", MENDABLE, template=template, **sources))
        )

    assert any(not answer.is_accepted for answer in answers)
    assert any(answer.warnings for answer in answers)
    threats.canary()
    assert threats.operator.stop() == 0
    threats.operator.start()
    assert threats.operator.process is not None
    threats.operator.process.send_signal(signal.SIGABRT)
    threats.operator.process.wait()
    denied = "".join(answer.text for answer in answers if not answer.is_accepted)
    places = {
        "a denial": denied,
        "a warning": str([answer.warnings for answer in answers]),
        "the log": threats.operator.read_log(),
        "the profile": profile.read_bytes().decode(errors="replace"),
        "the audit log": b"".join(log.read_lines()).decode(errors="replace"),
        "an Event": str(threats.api.list("Event", tenant.namespace)),
        "a status": str([each.get("status") for each in threats.api.list("Stack", tenant.namespace)]),
    }
    assert all(places[place] for place in ("a denial", "the log", "the profile", "the audit log"))
    core = "Correct-Horse-7"
    assert [place for place, text in places.items() if core in text or core.lower() in text] == []


@pytest.mark.parametrize("seed", range(3))
def test_what_an_import_writes_is_accepted(reviewed: Reviewed, seed: int) -> None:
    threats = reviewed.threats
    threats.operator.kill()
    threats.operator.options += ("--tenancy=trusted",)
    threats.operator.start()
    threats.wait_for(reviewed.is_reviewing, what="the API server asks the webhook")
    for number, (contents, file) in enumerate(imported_texts.draw_samples(count=15, seed=seed)):
        texts = [SourceText(source=f"{at}.yaml", content=content) for at, content in enumerate(contents)]
        made = stack_assembly.assemble(texts, name=import_.name_after(file), namespace="default")

        answer = threats.api.send("POST", find_path("Stack", "default"), body=made.stack, dryRun="All")
        assert answer.code == 201, f"sample {number}: {contents}: {answer}"


IDLE = 4_000
GROWTH = 150.0
"""MiB that these connections may add to the operator: 200 connections of 300 KB, and temporary memory."""


def test_idle_connections_take_no_memory(reviewed: Reviewed) -> None:
    operator, port = reviewed.threats.operator, reviewed.port
    before = operator.memory
    with contextlib.ExitStack() as held:
        for _ in range(IDLE):
            held.enter_context(socket.create_connection(("127.0.0.1", port)))
        silent = operator.memory - before
        assert reviewed.is_reviewing()
    context = ssl.create_default_context(cadata=read_certificates(reviewed.threats.api).authorities.decode())
    with contextlib.ExitStack() as held:
        for _ in range(IDLE // 10):
            plain = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            held.enter_context(context.wrap_socket(plain, server_hostname="127.0.0.1"))
        shaken = operator.memory - before
        assert reviewed.is_reviewing()
    print(f"{IDLE} silent connections: {silent:+.0f} MiB; {IDLE // 10} with TLS: {shaken:+.0f} MiB")
    reviewed.threats.canary()

    assert max(silent, shaken) <= GROWTH
    assert operator.read_metric("hearth_limit_reached_total", limit="webhook-connections") > 0
