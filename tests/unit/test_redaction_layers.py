"""Each place where text leaves the program redacts sensitive values on its own: no place relies on another one."""

from __future__ import annotations

import inspect
import io
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import structlog

from hearth.cli.stack_views import shown_objects
from hearth.cli.stack_views.causes import explanation, stack_causes
from hearth.cli.stack_views.lists import event_timeline, revision_history, stack_list
from hearth.cli.stack_views.stack_state import StackState
from hearth.cli.stack_views.tree import stack_view
from hearth.cli.stack_views.tree.snapshot import FoundChild, StackObjects
from hearth.engine.health_marks import health_mark_controller
from hearth.engine.snapshots import snapshot_controller
from hearth.engine.stack import failed_pods
from hearth.engine.status import status_writer
from hearth.engine.writes import step_execution
from hearth.kube.client.api_requests import ApiClient
from hearth.kube.objects import event_recorder
from hearth.kube.remote import remote_cluster
from hearth.model import errors
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.text import hidden_texts
from hearth.notifications import messages
from hearth.plan.health import object_reports
from hearth.plan.health.object_reports import RunEnd
from hearth.plan.retry import api_errors
from hearth.plan.state.steps import CreatePart
from hearth.plan.status.stack_notices import NoticeType, StackNotice
from hearth.preview import previews
from hearth.preview.changes import Action, Change
from hearth.serve import logs
from hearth.template.compiler import compiler
from hearth.template.compiler.sensitivity import SensitivityTracker
from support.units import blueprints, stack_objects
from support.units.restored_logging import restored_logging
from support.units.scripted_api.scripted_connection import ScriptedConnection
from support.units.stack_objects import HASHES
from support.virtual_time import in_virtual_time

VALUE = "open-sesame-4711"
SAID = f"cannot log in with {VALUE}: denied"
HIDDEN = frozenset({VALUE})
STACK = stack_objects.make_stack()
CONFIG = Kind(group="", version="v1", name="ConfigMap", plural="configmaps", namespaced=True)


class Registered:
    """The definition of the Stack."""

    hidden_texts = HIDDEN


@pytest.fixture(autouse=True)
def definition() -> Iterator[Registered]:
    """Register the sensitive value of the Stack, and leave the logging of the process as it was."""
    registered = Registered()
    hidden_texts.register(registered, uid=STACK.uid, kind="Stack", name="a/shop")
    with restored_logging():
        yield registered


# The operator.


def write_stack_status() -> Any:
    reconciler: Any = SimpleNamespace(definition=Registered())
    writer: Any = SimpleNamespace(_services=SimpleNamespace(hashes=HASHES))
    status = {"conditions": [{"reason": VALUE, "message": SAID}], "warnings": [SAID], "outputs": {"a": VALUE}}
    return status_writer.StatusWriter._finish(writer, STACK, reconciler, status)


async def post_event() -> Any:
    path = "/api/v1/namespaces/a/events"
    connection = ScriptedConnection({f"POST {path}": {}})
    recorder = event_recorder.EventRecorder(ApiClient(connection, None), now=lambda: 0.0)  # type: ignore[arg-type]  # the same methods
    await recorder.emit(STACK, event_recorder.EventContent(type_="Warning", reason="Failed", message=SAID))
    return [each.body for each in connection.sent]


def make_notification() -> Any:
    notice = StackNotice(type=NoticeType.FAILED, reason="Denied", message=SAID, phase="CreateFailed", revision=1)
    made = [messages.make_message(STACK, notice, is_slack=each, source="/hearth", now=0.0) for each in (False, True)]
    return [each.content for each in made]


def write_log() -> Any:
    stream = io.StringIO()
    logs.configure(format_="json", level="info", stream=stream)
    structlog.get_logger("hearth").warning("step failed", stack=STACK.uid, message=SAID)
    return stream.getvalue()


class WrittenStatuses:
    """Records the statuses of HealthMarks and StackSnapshots."""

    def __init__(self) -> None:
        self.written: list[Object] = []

    async def write_mark_status(self, mark: Any, patch: Object) -> None:
        self.written.append(patch)

    async def write_snapshot_status(self, snapshot: Any, patch: Object) -> None:
        self.written.append(patch)

    def find_written(self, uid: str) -> Object:
        return {}

    def sign(self, mark: Any, status: Object) -> Object:
        return status


CONDITIONS: Object = {"conditions": [{"type": "Ready", "message": SAID}]}


async def write_mark_status() -> Any:
    recorded = WrittenStatuses()
    controller: Any = SimpleNamespace(
        _name_stack=lambda mark: "a/shop", _marks=recorded, _services=SimpleNamespace(health_marks=recorded)
    )
    mark: Any = SimpleNamespace(uid="m")
    decision: Any = SimpleNamespace(status=CONDITIONS)
    await health_mark_controller.HealthMarkController._write(controller, mark, decision)
    return recorded.written


async def write_snapshot_status() -> Any:
    recorded = WrittenStatuses()
    controller: Any = SimpleNamespace(_services=SimpleNamespace(hashes=HASHES, snapshots=recorded))
    snapshot: Any = SimpleNamespace(
        uid="s", generation=1, namespace="a", name="s", owner_key="shop", status={}, spec={}
    )
    await snapshot_controller.SnapshotController._write(controller, snapshot, CONDITIONS)
    return recorded.written


async def execute_step() -> Any:
    """The result of a step that a webhook rejects."""

    async def create_object(manifest: Object, *, kind: Kind) -> Object:
        raise errors.ApiStatusError(code=422, status={"message": SAID})

    cluster: Any = SimpleNamespace(create_object=create_object)
    executor = step_execution.StepExecutor(
        cluster=cluster,
        manager="",
        may_exist=lambda uid, namespace: True,
        our_signatures=HASHES,
        boundary=blueprints.TRUSTED,
        stack_uid=STACK.uid,
    )
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "namespace": "a"}}
    return await executor.execute_step(CreatePart(resource="web", kind=CONFIG, manifest=manifest))


def describe_api_error() -> Any:
    return api_errors.describe(422, {"message": SAID}, kind="ConfigMap", hidden=HIDDEN)


def describe_cluster_error() -> Any:
    connection: Any = SimpleNamespace(_hidden=HIDDEN)
    refusal = errors.ApiStatusError(code=403, status={"message": SAID})
    return remote_cluster.RemoteConnection._clean(connection, refusal).args


def describe_run_end() -> Any:
    end = RunEnd(namespace="a", pod="x", container="c", exit_code=1)
    return object_reports.describe_run_end(end, SAID, hidden=HIDDEN)


async def describe_pods() -> Any:
    waiting = {"state": {"waiting": {"reason": "CreateContainerError", "message": SAID}}, "name": "c"}
    owner = {"uid": "w"}
    pod = {"metadata": {"name": "x", "ownerReferences": [owner]}, "status": {"containerStatuses": [waiting]}}

    async def list_pods(namespace: str, *, labels: str) -> list[Object]:
        return [pod]

    services = SimpleNamespace(
        management_cluster=SimpleNamespace(find_stack=lambda uid: STACK),
        find_boundary=lambda stack: SimpleNamespace(find_denial=lambda ref: ""),
        find_cluster=lambda stack: SimpleNamespace(list_pods=list_pods),
    )
    part: Any = SimpleNamespace(_services=services, _uid=STACK.uid, _definition_sync=Registered())
    child: Any = SimpleNamespace(namespace="a", uid="w", name="web")
    return await failed_pods.FailedPods._list_and_explain(part, child, "app=web")


def describe_mistakes() -> Any:
    tracker = SensitivityTracker()
    tracker.add(VALUE)
    return [str(each) for each in compiler.hide_values([errors.Mistake(path="spec", message=SAID)], tracker)]


# The CLI and the page.

PARAMETERS = {"password": {"type": "string", "sensitive": True}}
RESOURCES = {"web": {"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}}}
SHOP = StackState(
    {
        "metadata": {"name": "shop", "namespace": "a", "uid": "u", "generation": 1},
        "spec": {"template": {"parameters": PARAMETERS, "resources": RESOURCES}, "parameters": {"password": VALUE}},
        "status": {
            "observedGeneration": 1,
            "phase": "CreateFailed",
            "conditions": [{"type": "Ready", "status": "False", "reason": "Failed", "message": SAID}],
            "problems": [{"resource": "web", "reason": "Failed", "message": SAID}],
        },
    }
)
WEB = FoundChild(
    CONFIG,
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shop-web", "uid": "w", "labels": {"hearth.dev/resource": "web"}},
        "data": {"a": VALUE},
    },
)
OBJECTS = StackObjects(stack=SHOP, template=SHOP.spec["template"], children=[WEB])


def list_stacks() -> Any:
    return stack_list.make_row(SHOP, now=0.0, with_namespace=False), stack_list.to_output(SHOP)


def draw_tree() -> Any:
    return stack_view.describe(OBJECTS).rows


def explain_message() -> Any:
    return stack_view.describe(OBJECTS).message


def explain_causes() -> Any:
    found = (explanation.Cause(subject="web", message=SAID, causes=(explanation.Cause(subject="pod", message=SAID),)),)
    return stack_causes.redact_causes(OBJECTS, found)


def list_events() -> Any:
    event = {"involvedObject": {"uid": "w"}, "message": SAID, "lastTimestamp": "1970-01-01T00:00:05Z"}
    return list(event_timeline.describe_events([event], {"w": ""}, OBJECTS))


def show_object() -> Any:
    return shown_objects.show_object(OBJECTS, WEB)


def show_revision() -> Any:
    template = {"parameters": {"password": {**PARAMETERS["password"], "default": VALUE}}, "outputs": {"a": VALUE}}
    return revision_history.show_definition({"template": template})


def preview_change() -> Any:
    change = Change(resource="web", action=Action.UPDATE, reason=SAID)
    return previews.redact_change(change, HIDDEN)


LAYERS: dict[str, tuple[Callable[[], Any], ModuleType, str]] = {
    "status of a Stack": (write_stack_status, status_writer, "status_builder"),
    "Event": (post_event, event_recorder, "hidden_texts"),
    "notification": (make_notification, messages, "hidden_texts"),
    "log": (write_log, logs, "hidden_texts"),
    "status of a HealthMark": (write_mark_status, health_mark_controller, "hidden_texts"),
    "status of a StackSnapshot": (write_snapshot_status, snapshot_controller, "hidden_texts"),
    "refused step": (execute_step, step_execution, "hidden_texts"),
    "error of the API server": (describe_api_error, api_errors, "redaction"),
    "error of another cluster": (describe_cluster_error, remote_cluster, "redaction"),
    "log of a container": (describe_run_end, object_reports, "redaction"),
    "Pods of a failed workload": (describe_pods, failed_pods, "redaction"),
    "mistakes of a definition": (describe_mistakes, compiler, "redaction"),
    "list of Stacks": (list_stacks, stack_list, "redaction"),
    "rows of the tree": (draw_tree, stack_view, "redaction"),
    "message of the tree": (explain_message, stack_view, "stated_values"),
    "causes": (explain_causes, stack_causes, "stated_values"),
    "timeline": (list_events, event_timeline, "redaction"),
    "object": (show_object, shown_objects, "redaction"),
    "revision": (show_revision, revision_history, "redaction"),
    "preview": (preview_change, previews, "redaction"),
}
"""By name: what leaves there, and the import that redacts it."""


class Disabled:
    """A module that redacts nothing."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name == "redact_log":
            return lambda _logger, _method, entry: entry
        return (lambda value, *_: value) if name.startswith("redact") else getattr(self._module, name)


async def find_leaks() -> set[str]:
    """The layers whose text contains the value."""
    found = set()
    for name, (send, _, _) in LAYERS.items():
        left = send()
        if VALUE in repr(await left if inspect.isawaitable(left) else left):
            found.add(name)
    return found


@in_virtual_time
async def test_no_layer_shows_a_sensitive_value() -> None:
    assert await find_leaks() == set()


@pytest.mark.parametrize("name", sorted(LAYERS))
@in_virtual_time
async def test_each_layer_is_the_only_one_that_protects_its_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, module, imported = LAYERS[name]
    monkeypatch.setattr(module, imported, Disabled(getattr(module, imported)))

    assert await find_leaks() == {name}
