"""No feature shows a sensitive value: each scene uses the value in a feature, then all places with output are searched
for it.

A new feature adds a scene to `SCENES`, a new output a place to `find_places`.
"""

from __future__ import annotations

import base64
import concurrent.futures
import http.cookiejar
import http.server
import json
import signal
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.real import snapshot_crds, stack_command
from support.real.servers import admission_webhook
from support.real.stack_command import StackCommand
from support.threats import other_clusters
from support.threats.api import Object
from support.threats.world import CONFIG_MAPS, READ, WRITE, Rule, Tenant, ThreatWorld, make_config_map, make_stack

CORE = "Kanarienvogel7Zeisig"
VALUE = f'q&<é>"{CORE}\\/+x y'
"""Contains all characters that encoders escape."""
LINE = f"MIIE{CORE}AgEAAoIBAQ"
KEY = f"-----BEGIN THING-----\n{LINE}\nshort\n-----END THING-----\n"
"""A value of several lines; only the short line may be shown."""


def encode(text: str) -> str:
    """In base 64."""
    return base64.b64encode(text.encode()).decode()


NEEDLES = (
    *(CORE, CORE.lower(), CORE.upper(), CORE[::-1], CORE[:9], CORE[9:]),
    *(encode("x" * before + CORE)[4 if before else 0 : 20] for before in range(3)),
    encode(encode(CORE))[:20],
    CORE.encode().hex(),
)
"""Texts that show a leak of the value, a part of it, or a value derived from it."""
SENSITIVE: Object = {"type": "string", "sensitive": True}
ECHOES = {
    "plain": f"cannot log in with {VALUE}",
    "base64": f"Authorization: Basic {encode('user:' + VALUE)}",
    "json": json.dumps({"password": VALUE}),
    "go": json.dumps({"password": VALUE}).replace("&", r"\u0026").replace("<", r"\u003c").replace(">", r"\u003e"),
    "url": f"postgres://u:{urllib.parse.quote(VALUE, safe='')}@db: refused",
    "literal": f"found {VALUE!r}",
    "line": f"not a key: {LINE}",
}
"""Ways in which a program may quote a value in its status or log."""
MAY = (
    Rule(group="", resources=("configmaps", "secrets", "services", "pods"), verbs=(*READ, *WRITE)),
    Rule(group="apps", resources=("deployments",), verbs=(*READ, *WRITE)),
    Rule(group="batch", resources=("jobs",), verbs=(*READ, *WRITE)),
    Rule(group="hearth.dev", resources=("resourcegroups", "stacksnapshots", "healthmarks"), verbs=(*READ, *WRITE)),
)


@dataclass(frozen=True, slots=True)
class Scene:
    """One tenant, with a value that only the operator may know."""

    threats: ThreatWorld
    tenant: Tenant
    author: Any

    @property
    def namespace(self) -> str:
        """The namespace of all objects."""
        return self.tenant.namespace

    def create(self, name: str, resources: Object, *, template: Object | None = None, **spec: Any) -> None:
        """Create a Stack with the value in two parameters from a Secret."""
        declared = {"pw": SENSITIVE, "key": SENSITIVE, **((template or {}).pop("parameters", {}))}
        sources = [{"secretRef": {"name": "account"}}]
        full = {**(template or {}), "parameters": declared}
        self.author.create(
            make_stack(self.namespace, name, resources, template=full, **{"parametersFrom": sources, **spec})
        )

    def until_settled(self, name: str) -> Object:
        """Wait until the Stack reports its result."""
        phases = ("CreateComplete", "CreateFailed", "UpdateComplete", "UpdateFailed", "RollbackComplete")
        return self.threats.wait_phase(self.namespace, name, *phases)

    def until_told(self, name: str, text: str) -> None:
        """Wait until an Event of the Stack has this reason, or its status contains the text."""
        api = self.threats.api

        def look() -> bool:
            found = [each for each in api.list("Event", self.namespace) if each["involvedObject"]["name"] == name]
            status = self.threats.find_status(self.namespace, name)
            return text in json.dumps([[each["reason"] for each in found], status])

        self.threats.wait_for(look, what=f"{text} of stack/{name}")


def make_secret(name: str, **data: str) -> Object:
    """A manifest of a Secret."""
    return {"manifest": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data}}


def make_echoing(name: str) -> Object:
    """A Job with the value, whose status no controller of this cluster writes."""
    values = [{"name": "PW", "value": "${params.pw}"}, {"name": "KEY", "value": "${params.key}"}]
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i", "env": values}]}
    spec = {"managedBy": "example.com/other", "backoffLimit": 0, "template": {"spec": pod}}
    return {"manifest": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}}


def collections(scene: Scene) -> None:
    """Members that contain the value, a sensitive list, and a sensitive key."""
    zones: Object = {"parameters": {"zones": {"type": "array"}}}
    member = {**make_config_map(data={"a": "${params.pw + item}"}), "forEach": "params.zones", "key": "item"}
    scene.create("zones", {"w": member}, template=zones, parameters={"zones": ["a", "b"]})
    secret = {**make_config_map(data={"a": "${item}"}), "forEach": "params.pw.split('a')", "key": "item"}
    scene.create("secret-keys", {"w": secret})
    labelled: Object = {
        "manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"l": "${params.pw + item}"}}}
    }
    labelled |= {"forEach": "params.zones", "key": "item"}
    zones = {"parameters": {"zones": {"type": "array"}}}
    scene.create("wrong-members", {"w": labelled}, template=zones, parameters={"zones": ["a", "b"]})
    for name in ("zones", "secret-keys", "wrong-members"):
        scene.until_settled(name)


def nested(scene: Scene) -> None:
    """A Stack and a group within a Stack, which receive the value, and outputs."""
    inner = {
        "resources": {"c": make_config_map("inner-c", {"a": "${params.pw}"})},
        "parameters": {"pw": {"type": "string"}},
    }
    given = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "spec": {"template": inner, "parameters": {"pw": "${params.pw}"}},
    }
    scene.create("parent", {"child": {"manifest": given}})
    reading = {
        "template": {**inner, "outputs": {"o": {"value": "${params.pw}"}}},
        "parametersFrom": [{"secretRef": {"name": "account"}}],
    }
    resources: Object = {
        "child": {"manifest": {**given, "spec": reading}},
        "user": make_config_map("user", {"a": "${child.status.outputs.o}"}),
    }
    scene.create(
        "reader",
        resources,
        template={
            "outputs": {"o": {"value": "${child.status.outputs.o}"}, "s": {"value": "${params.pw.substring(4)}"}}
        },
    )
    member = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "${params.pw}"}}}
    group = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "ResourceGroup",
        "spec": {"replicas": 1, "template": member, "parameters": {"pw": "${params.pw}"}},
    }
    scene.create("grouped", {"g": {"manifest": group}})
    for name in ("parent", "reader", "grouped"):
        scene.until_settled(name)


def conditions(scene: Scene) -> None:
    """Expressions that fail on the value, and patterns, conditions and names with it."""
    resources = {
        "number": make_config_map("number", {"a": "${string(int(params.pw))}"}),
        "time": make_config_map("time", {"a": "${string(timestamp(params.pw))}"}),
        "quantity": make_config_map("quantity", {"a": "${string(quantity(params.pw).asInteger())}"}),
        "pattern": make_config_map("pattern", {"a": "${string('x'.matches(params.pw + '('))}"}),
        "format": make_config_map("format", {"a": "${'%d'.format([params.pw])}"}),
        "large": make_config_map(
            "large", {"a": "${string(int(params.pw.split('').map(x, x + params.pw).join(params.pw)))}"}
        ),
    }
    for name, resource in resources.items():
        scene.create(name, {"r": resource})
    scene.create("named", {"r": make_config_map("${params.pw}")})
    scene.create(
        "ready",
        {
            "r": {
                **make_config_map("ready", {"a": "${params.pw}"}),
                "failedWhen": ["ready.data.a != '' && int(ready.data.a) > 1"],
            }
        },
    )
    for name in resources:
        scene.until_settled(name)


def echoes(scene: Scene) -> None:
    """Programs quote the value in the status of their objects, which the Stack quotes."""
    for form in ECHOES:
        scene.create(f"echo-{form}", {"web": make_echoing(f"echo-{form}")})
    api, namespace, now = scene.threats.api, scene.namespace, "2026-01-01T00:00:00Z"
    scene.threats.wait_for(lambda: all(api.get("Job", namespace, f"echo-{form}") for form in ECHOES), what="Jobs")
    for form, text in ECHOES.items():
        refused = {"status": "True", "reason": "Refused", "message": f"refused: {text}", "lastTransitionTime": now}
        status = {"startTime": now, "conditions": [{"type": kind, **refused} for kind in ("FailureTarget", "Failed")]}
        api.patch("Job", namespace, f"echo-{form}", {"status": status}, subresource="status").expect()
    for form in ECHOES:
        scene.until_told(f"echo-{form}", "refused: ")


def drift(scene: Scene) -> None:
    """Other clients change objects with the value: changes that are repaired, reported, or cannot be repaired."""
    fixed = {
        "manifest": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "fixed"},
            "immutable": True,
            "stringData": {"a": "${params.pw}"},
        }
    }
    resources = {
        "repaired": make_config_map("repaired", {"a": "${params.pw}", "b": "c"}),
        "reported": make_config_map("reported", {"a": "${params.pw}", "b": "c"}, driftPolicy="Report"),
        "plain": make_config_map("plain", {"b": "c"}),
        "fixed": fixed,
    }
    scene.create("drifting", resources)
    scene.until_settled("drifting")
    api = scene.threats.api
    for name in ("repaired", "reported", "plain"):
        key = "b" if name == "plain" else "a"
        api.patch("ConfigMap", scene.namespace, name, {"data": {key: f"changed {VALUE}"}}).expect()
    api.delete("Secret", scene.namespace, "fixed")
    replaced = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "fixed", "namespace": scene.namespace}}
    api.try_create({**replaced, "immutable": True, "stringData": {"a": f"other {VALUE}"}})
    scene.until_told("drifting", "DriftRepaired")
    scene.until_told("drifting", "reported")


def adoption(scene: Scene) -> None:
    """Objects that exist already, with the value, are refused or taken over."""
    for name in ("theirs", "taken"):
        metadata = {"name": name, "namespace": scene.namespace}
        scene.threats.api.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": f"their {VALUE}"}}
        )
    scene.create("refused", {"r": make_config_map("theirs", {"a": "${params.pw}"})})
    scene.create("adopting", {"r": make_config_map("taken", {"a": "${params.pw}"})}, adoptionPolicy="Adopt")
    scene.until_told("refused", "NotOwned")
    scene.until_settled("adopting")


def jobs(scene: Scene) -> None:
    """A Job with the value fails."""
    container = {"name": "c", "image": "i", "args": ["${params.pw}"]}
    spec = {"backoffLimit": 0, "template": {"spec": {"restartPolicy": "Never", "containers": [container]}}}
    job = {"manifest": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "run"}, "spec": spec}}
    scene.create("working", {"j": job})
    api, namespace = scene.threats.api, scene.namespace
    pods = scene.threats.wait_for(lambda: api.list("Pod", namespace, labelSelector="job-name=run"), what="a pod")
    # `why` shows the message of a container to users with access to the Pod. Only the operator knows the sensitive
    # values.
    end = {"exitCode": 3, "reason": "Error", "finishedAt": "2030-01-01T00:00:00Z"}
    ended = {"name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": {"terminated": end}}
    status = {"phase": "Failed", "message": ECHOES["base64"], "containerStatuses": [ended]}
    api.patch("Pod", namespace, pods[0]["metadata"]["name"], {"status": status}, subresource="status").expect()
    scene.until_settled("working")


def snapshots(scene: Scene) -> None:
    """A snapshot of a Stack with the value, a rollback, and a changed value."""
    scene.create("kept", {"r": make_config_map("kept", {"a": "${params.pw}"}, deletionPolicy="Retain")})
    scene.until_settled("kept")
    snapshot = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "StackSnapshot",
        "metadata": {"name": "shot", "namespace": scene.namespace},
        "spec": {"stackName": "kept"},
    }
    scene.threats.api.create(snapshot)
    api = scene.threats.api
    api.patch(
        "Stack",
        scene.namespace,
        "kept",
        {"spec": {"template": {"resources": {"r": {"manifest": {"data": {"b": "2"}}}}}}},
    ).expect()
    scene.until_settled("kept")
    api.patch("Stack", scene.namespace, "kept", {"spec": {"rollback": {"toRevision": 1}}}).expect()
    scene.threats.wait_phase(scene.namespace, "kept", "RollbackComplete")
    scene.threats.wait_for(
        lambda: (api.get("StackSnapshot", scene.namespace, "shot") or {}).get("status"), what="a snapshot"
    )


def clusters(scene: Scene) -> None:
    """Credentials of other clusters: refused by the server, unreadable, misplaced."""
    good = other_clusters.find_home(scene.threats.kubeconfig)
    home = urllib.parse.urlsplit(good["server"])
    users: dict[str, tuple[Object, Object]] = {
        "token": (good, {"token": CORE}),
        "control": (good, {"token": f"a\nb{CORE}"}),
        "basic": (good, {"username": "u", "password": CORE}),
        "in-url": ({**good, "server": f"https://u:{CORE}@{home.netloc}"}, {"token": "x"}),
        "in-path": ({**good, "server": f"https://{home.netloc}/{CORE}"}, {"token": "x"}),
        "key": (good, {"client-key-data": encode(KEY), "client-certificate-data": encode(KEY)}),
        "odd-key": (good, {"client-key-data": VALUE, "client-certificate-data": CORE}),
        "exec": (good, {"exec": {"command": CORE}}),
        "authority": (
            {**good, "certificate-authority-data": encode(KEY)},
            {"token": CORE},
        ),
    }
    contents: dict[str, str] = {name: other_clusters.write_kubeconfig(*each) for name, each in users.items()}
    contents |= {"no-yaml": f"a: [{CORE}", "no-map": CORE, "no-context": json.dumps({"current-context": CORE})}
    for name, content in contents.items():
        metadata = {"name": f"east-{name}", "namespace": scene.namespace}
        scene.threats.api.create(
            {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": content}}
        )
        reference = {"secretRef": {"name": f"east-{name}"}}
        scene.create(f"in-{name}", {"r": make_config_map("r", {"a": "${params.pw}"})}, kubeConfig=reference)
    for name in contents:
        scene.until_told(f"in-{name}", "Cluster" if name not in contents else "conditions")


def stated(scene: Scene) -> None:
    """The value is in the spec, for a sensitive parameter, and in a ConfigMap that serves as a source."""
    resources = {
        "r": make_config_map("stated", {"a": "${params.own}"}),
        "bad": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"labels": {"l": "${params.own}"}}}},
    }
    scene.create(
        "stated",
        resources,
        template={"parameters": {"own": SENSITIVE, "n": {"type": "integer", "sensitive": True}}},
        parameters={"own": VALUE, "n": VALUE},
    )
    scene.create("stated-well", resources, template={"parameters": {"own": SENSITIVE}}, parameters={"own": VALUE})
    for name in ("stated", "stated-well"):
        scene.until_settled(name)


def policies(scene: Scene) -> None:
    """The API server refuses to change a field, so the object would have to be replaced, which is not allowed."""
    fixed = {
        "manifest": {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "locked"},
            "immutable": True,
            "stringData": {"a": "${params.pw + params.more}"},
        }
    }
    scene.create(
        "locking",
        {"r": {**fixed, "updatePolicy": {"replace": "Never"}}},
        template={"parameters": {"more": {"type": "string"}}},
        parameters={"more": "1"},
    )
    scene.until_settled("locking")
    scene.threats.api.patch("Stack", scene.namespace, "locking", {"spec": {"parameters": {"more": "2"}}}).expect()
    scene.until_settled("locking")


def moves(scene: Scene) -> None:
    """An object with the value moves from a nested Stack to its parent, and an object that both define stays."""
    declared = {"pw": {"type": "string"}}
    moved, both = make_config_map("moved", {"a": "${params.pw}"}), make_config_map("both", {"a": "${params.pw}"})
    inner = {"template": {"parameters": declared, "resources": {"m": moved, "b": both}}}
    spec = {**inner, "parametersFrom": [{"secretRef": {"name": "account"}}]}
    nested_stack = {"apiVersion": "hearth.dev/v1alpha1", "kind": "Stack", "metadata": {"name": "movers"}, "spec": spec}
    scene.create("moving", {"child": {"manifest": nested_stack}})
    scene.until_settled("moving")
    resources = {"m": moved, "b": both, "child": {"manifest": {"spec": {"template": {"resources": {"m": None}}}}}}
    patch = {"spec": {"template": {"resources": resources}}}
    scene.threats.api.patch("Stack", scene.namespace, "moving", patch).expect()
    scene.until_told("moving", "belongs to the Stack")


def undone(scene: Scene) -> None:
    """A value from another client can be neither reverted nor replaced."""
    scene.create("undone", {"r": make_config_map("undone", {"a": "${params.pw}"})})
    scene.until_settled("undone")
    other = {"immutable": True, "data": {"a": f"other {VALUE}"}}
    scene.threats.api.patch("ConfigMap", scene.namespace, "undone", other).expect()
    scene.until_told("undone", "cannot be undone")


def claims(scene: Scene) -> None:
    """A StatefulSet with the value is replaced, and its claims are kept."""
    claim: Object = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"] |= {"resources": {"requests": {"storage": "1Gi"}}}
    container = {"name": "c", "image": "i", "env": [{"name": "PW", "value": "${params.pw}"}]}
    pod = {"metadata": {"labels": {"app": "set"}}, "spec": {"containers": [container]}}
    spec = {"serviceName": "set", "replicas": 1, "selector": {"matchLabels": {"app": "set"}}, "template": pod}
    manifest = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "set"}}
    manifest["spec"] = {**spec, "volumeClaimTemplates": [claim], "podManagementPolicy": "OrderedReady"}
    scene.create("claiming", {"set": {"manifest": manifest, "updatePolicy": {"replace": "KeepClaims"}}})
    api = scene.threats.api
    scene.threats.wait_for(lambda: api.get("StatefulSet", scene.namespace, "set"), what="the set")
    change = {"manifest": {"spec": {"podManagementPolicy": "Parallel"}}}
    api.patch("Stack", scene.namespace, "claiming", {"spec": {"template": {"resources": {"set": change}}}}).expect()
    is_parallel = "Parallel"
    scene.threats.wait_for(
        lambda: is_parallel in json.dumps(api.get("StatefulSet", scene.namespace, "set")), what="the next set"
    )


def working_cluster(scene: Scene) -> None:
    """Objects with the value are in another cluster, which refuses one of them and quotes it."""
    account = scene.tenant.make_account("east", Rule(group="", resources=("configmaps",), verbs=(*READ, *WRITE)))
    content = other_clusters.write_own(scene.threats, account.account, namespace=scene.namespace)
    metadata = {"name": "east", "namespace": scene.namespace}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": content}}
    scene.threats.api.create(secret)
    label: Object = {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad"}}}
    label["manifest"]["metadata"] |= {"labels": {"l": "${params.pw}"}}
    resources = {"r": make_config_map("eastern", {"a": "${params.pw}"}), "bad": label}
    scene.create("eastern", resources, kubeConfig={"secretRef": {"name": "east"}})
    found = scene.threats.wait_for(lambda: scene.threats.api.get("ConfigMap", scene.namespace, "eastern"), what="it")
    assert CORE in json.dumps(found)
    scene.until_settled("eastern")


SCENES: tuple[Callable[[Scene], None], ...] = (
    *(moves, undone, claims, working_cluster),
    *(collections, nested, conditions, echoes, drift, adoption, jobs, snapshots, clusters, stated, policies),
)  # fmt: skip


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bytes]]:
    """Run a trace collector for operators that start later; yields the received bodies."""
    received: list[bytes] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        yield received
        server.shutdown()


@pytest.mark.long
@pytest.mark.operator_options("--log-level=debug", "--allow-loopback-clusters", "--max-backoff=2s")
def test_no_feature_shows_a_sensitive_value(collector: list[bytes], threats: ThreatWorld, tmp_path: Path) -> None:
    tenant = threats.tenant()
    scene = prepare(threats, tenant)
    for act in SCENES:
        act(scene)
    command = StackCommand(kubeconfig=threats.kubeconfig, namespace=tenant.namespace)
    found = find_leaks(
        {
            **find_places(threats, tenant),
            **run_commands(command, threats, tenant, tmp_path),
            **read_page(threats.kubeconfig, threats, tenant),
        }
    )

    threats.operator.restart()
    threats.canary()
    for stack in threats.api.list("Stack", tenant.namespace):
        threats.api.delete("Stack", tenant.namespace, stack["metadata"]["name"])
    threats.canary()
    found |= find_leaks(find_places(threats, tenant))
    assert threats.operator.process is not None
    threats.operator.process.send_signal(signal.SIGABRT)
    threats.operator.process.wait()
    found |= find_leaks({"the log after a crash": threats.operator.read_log()})
    found |= find_leaks({"a span": b"".join(collector).decode(errors="replace")})

    assert b"reconcile" in b"".join(collector)
    assert not found, "\n".join(sorted(found))


@pytest.mark.operator_options("--log-level=debug", "--max-backoff=2s")
def test_what_programs_quote_is_shown_without_the_value(threats: ThreatWorld) -> None:
    tenant = threats.tenant()
    echoes(prepare(threats, tenant))

    leaks = find_leaks(find_places(threats, tenant))

    assert not leaks, "\n".join(sorted(leaks))


@pytest.fixture
def refusing(threats: ThreatWorld) -> Iterator[int]:
    """The port of an admission webhook that refuses every request, and quotes the value."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            said = " ".join(("not on a Friday:", *ECHOES.values()))
            answer = {"uid": review["request"]["uid"], "allowed": False, "status": {"message": said}}
            body = json.dumps({"apiVersion": review["apiVersion"], "kind": review["kind"], "response": answer}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: Any) -> None:
            """Nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(admission_webhook.CERTIFICATE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        # Otherwise, it would also refuse the deletion of the test's objects.
        threats.api.send("DELETE", admission_webhook.CONFIGURATIONS).expect()
        server.shutdown()


def refuse(scene: Scene, port: int, *, what: dict[str, list[str]], writes: str = "*") -> None:
    """Let the webhook refuse writes of resources in the namespace. what: resources by their group."""
    name = f"refusing-{'-'.join(sorted(''.join(each).replace('/', '-') for each in what.values()))}"
    webhook = admission_webhook.Webhook(port=port)
    configuration = webhook.make_configuration(name, namespace=scene.namespace)
    (entry,) = configuration["webhooks"]
    entry["timeoutSeconds"] = 5
    entry["rules"] = [
        {"apiGroups": [group], "apiVersions": ["*"], "operations": [writes], "resources": resources}
        for group, resources in what.items()
    ]
    scene.threats.api.send("POST", admission_webhook.CONFIGURATIONS, body=configuration).expect()


def wait_quoted(scene: Scene, kind: str, name: str) -> None:
    """Wait until the status of an object contains the text around the value."""
    api = scene.threats.api
    scene.threats.wait_for(
        lambda: "not on a Friday" in json.dumps((api.get(kind, scene.namespace, name) or {}).get("status")),
        what=f"the refusal in {kind} {name}",
    )


@pytest.mark.operator_options("--log-level=debug", "--max-backoff=2s")
def test_what_a_webhook_quotes_is_shown_without_the_value(threats: ThreatWorld, refusing: int) -> None:
    for definition in snapshot_crds.load():
        threats.api.apply(definition).expect()
    path = "/apis/snapshot.storage.k8s.io/v1/volumesnapshots"
    threats.wait_for(lambda: threats.api.send("GET", path).is_accepted, what="VolumeSnapshots")
    tenant = threats.tenant()
    scene = prepare(threats, tenant)
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim}
    data = {"manifest": volume, "readyWhen": ["true"]}
    api, version = threats.api, "hearth.dev/v1alpha1"
    api.create(
        make_stack(
            scene.namespace,
            "shop",
            {"data": data, "c": make_config_map("c", {"a": "${params.pw}"})},
            template={"parameters": {"pw": SENSITIVE, "key": SENSITIVE}},
            parametersFrom=[{"secretRef": {"name": "account"}}],
        )
    )
    scene.until_settled("shop")
    refuse(scene, refusing, what={"": ["configmaps"], "snapshot.storage.k8s.io": ["volumesnapshots"]})
    head = {"apiVersion": version, "metadata": {"name": "asked", "namespace": scene.namespace}}
    api.create(
        {
            **head,
            "kind": "HealthMark",
            "spec": {"stackName": "shop", "resource": "c", "markUnhealthy": True, "reason": "test"},
        }
    )
    api.create({**head, "kind": "StackSnapshot", "spec": {"stackName": "shop"}})
    wait_quoted(scene, "HealthMark", "asked")
    wait_quoted(scene, "StackSnapshot", "asked")
    refuse(scene, refusing, what={"": ["events"], "hearth.dev": ["healthmarks/status", "stacksnapshots/status"]})
    change = {"template": {"resources": {"c": {"manifest": {"data": {"b": "2"}}}}}}
    api.patch("Stack", scene.namespace, "shop", {"spec": change}).expect()
    wait_quoted(scene, "Stack", "shop")
    threats.wait_for(lambda: "failed to post Event" in threats.operator.read_log(), what="a refused Event")
    api.create(
        {
            **head,
            "kind": "HealthMark",
            "metadata": {"name": "late", "namespace": scene.namespace},
            "spec": {"stackName": "shop", "resource": "c", "markUnhealthy": True, "reason": "test"},
        }
    )
    refused = "cannot write the status of a HealthMark"
    threats.wait_for(lambda: refused in threats.operator.read_log(), what="a refused status")

    leaks = find_leaks(find_places(threats, tenant))

    assert not leaks, "\n".join(sorted(leaks))


def prepare(threats: ThreatWorld, tenant: Tenant) -> Scene:
    """Create the Secret with the value, and an author."""
    metadata = {"name": "account", "namespace": tenant.namespace}
    data = {"pw": VALUE, "key": KEY}
    threats.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": data})
    return Scene(threats, tenant, tenant.author(CONFIG_MAPS, *MAY))


def find_leaks(places: dict[str, str]) -> set[str]:
    """The places that show a needle, with the surrounding text."""
    return {
        f"{place} shows {needle}: …{text[max(text.find(needle) - 300, 0) : text.find(needle) + 60]}…"
        for place, text in places.items()
        for needle in NEEDLES
        if needle in text
    }


def find_places(threats: ThreatWorld, tenant: Tenant) -> dict[str, str]:
    """Everything that the operator writes, except specs of Stacks; objects with the value contribute only their
    metadata.
    """
    places = {"the log": threats.operator.read_log()}
    places |= {page: threats.operator.get(page).text for page in ("/metrics", "/healthz", "/readyz")}
    whole = ("Event", "ControllerRevision", "StackSnapshot", "HealthMark", "Lease")
    for kind in (*whole, "Stack", "ResourceGroup", "ConfigMap", "Secret", "Job"):
        for each in threats.api.list(kind, tenant.namespace):
            if is_of_set(each):
                continue
            metadata = {key: value for key, value in each["metadata"].items() if key != "managedFields"}
            shown = each if kind in whole else {"metadata": metadata}
            shown |= {"status": each.get("status")} if kind in ("Stack", "ResourceGroup") else {}
            places[f"{kind} {each['metadata']['name']}"] = json.dumps(shown, ensure_ascii=False)
    for kind in ("ConfigMap", "Lease", "Event"):
        places |= {
            f"{kind} {each['metadata']['name']} of the operator": str(each)
            for each in threats.api.list(kind, "hearth-system")
        }
    return places


def is_of_set(raw: Object) -> bool:
    """Whether the StatefulSet controller wrote it: its revisions contain the values of the set."""
    return any(each["kind"] == "StatefulSet" for each in raw["metadata"].get("ownerReferences") or ())


SHOWN = (
    "drifting",
    "kept",
    "stated-well",
    "reader",
    "working",
    "echo-go",
    "in-token",
    "wrong-members",
    "pattern",
    "moving",
    "undone",
    "claiming",
    "eastern",
)
"""Stacks to run `kubectl stack` for: each run takes a second."""
EDITED = ("drifting", "kept", "stated", "number")
"""Stacks whose definition is previewed with the value in a further field."""


def run_commands(command: StackCommand, threats: ThreatWorld, tenant: Tenant, folder: Path) -> dict[str, str]:
    """The output of `kubectl stack`."""
    runs: list[tuple[str, ...]] = [("list", "-o", "yaml"), ("list",), ("history", "kept", "1", "2")]
    for name in SHOWN:
        runs += [("tree", name), ("events", name), ("graph", name)]
        # `why` also quotes objects, which it reads with the rights of its user. If an object repeats a value in its own
        # status, users with access to the object see it.
        runs += [] if name == "echo-go" else [("why", name), ("why", name, "-o", "json")]
    for name in ("drifting", "kept", "stated-well"):
        runs += [("history", name, "1"), ("history", name, "-o", "json"), ("export", name), ("diff", name, "--to", "1")]
    for name in EDITED:
        file = str(write_edited(threats, tenant, name, folder))
        runs += [("diff", "-f", file), ("diff", "-f", file, "-o", "json"), ("lint", file), ("render", "-f", file)]
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        ended = list(pool.map(lambda run: command.run_now(*run), runs))
    used = [" ".join(run) for run, done in zip(runs, ended, strict=True) if "Usage:" in done.stderr]
    assert used == [], "these commands take other arguments"
    return {f"kubectl stack {' '.join(run)}": done.stdout + done.stderr for run, done in zip(runs, ended, strict=True)}


def write_edited(threats: ThreatWorld, tenant: Tenant, name: str, folder: Path) -> Path:
    """Write a file with a Stack whose resources have the value in a further field.

    It contains the value itself only if the Stack did.
    """
    stack = threats.api.get("Stack", tenant.namespace, name)
    assert stack is not None
    edited = {key: stack[key] for key in ("apiVersion", "kind", "spec")}
    edited["metadata"] = {"name": name, "namespace": tenant.namespace}
    for resource in edited["spec"]["template"]["resources"].values():
        resource["manifest"].setdefault("data", {})["more"] = "${params.pw + 'x'}"
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump(edited))
    return file


def read_page(kubeconfig: Path, threats: ThreatWorld, tenant: Tenant) -> dict[str, str]:
    """The pages that `kubectl stack ui` serves."""
    ui = stack_command.start_ui(kubeconfig, "-n", tenant.namespace)
    try:
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        with opener.open(ui.address, timeout=60) as answer:
            root, places = answer.url, {"the page": answer.read().decode()}
        for stack in threats.api.list("Stack", tenant.namespace):
            name = stack["metadata"]["name"]
            further = ("/history", "/preview?to=0", "/why") if name in SHOWN and name != "echo-go" else ()
            for part in ("", *further):
                try:
                    with opener.open(f"{root}stacks/{tenant.namespace}/{name}{part}", timeout=60) as answer:
                        places[f"the page of {name}{part}"] = answer.read().decode()
                except urllib.error.HTTPError as refused:
                    places[f"the page of {name}{part}"] = refused.read().decode()
        assert any("What would change" in text for text in places.values())
        assert any("drifting" in text for text in places.values())
        return places
    finally:
        ui.kill()
