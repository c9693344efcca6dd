"""The demo's requests to the cluster: installs the CRDs, applies and reads the Stack, and registers the webhook."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from urllib import parse

from hearth.cli.demo import operator_process
from hearth.cli.stack_access.session import Session
from hearth.cli.stack_access.stack_locations import StackLocation
from hearth.cli.stack_access.stack_reader import StackReader
from hearth.cli.stack_views.tree.snapshot import StackObjects
from hearth.kube.client import api_requests
from hearth.kube.client.connection import Connection
from hearth.kube.webhook import webhook_configuration
from hearth.model import errors, names
from hearth.model.api import crd
from hearth.model.child import Object
from hearth.model.kinds import Kind
from hearth.model.well_known_kinds import CUSTOM_RESOURCE_DEFINITION, STACK

NAME: Final = "hearth-demo"
"""Name of the field manager and of the webhook configurations."""
POLL: Final = 0.2
"""Seconds between two checks of something that takes about one second."""


class Cluster:
    """One cluster, and the state of one Stack in it between two snapshots."""

    def __init__(self, connection: Connection) -> None:
        self._session = Session(connection)
        self._reader = StackReader(self._session)

    async def install(self) -> None:
        """Apply the CustomResourceDefinitions, and wait until their kinds are served."""
        for definition in crd.make_crds():
            await self.apply(definition, kind=CUSTOM_RESOURCE_DEFINITION)
        for definition in crd.make_crds():
            name = definition["metadata"]["name"]
            while not is_established(await self._session.get(CUSTOM_RESOURCE_DEFINITION, "", name)):  # noqa: ASYNC110 -- it is another process that we wait for
                await asyncio.sleep(POLL)

    async def apply(self, manifest: Object, *, kind: Kind) -> Object:
        """Apply server-side with force, because an earlier demo may have left the object with manual changes."""
        metadata = manifest["metadata"]
        path = api_requests.object_path(kind, metadata.get("namespace", ""), metadata["name"])
        query = api_requests.apply_query(manager=NAME, force=True)
        return await self._session.connection.request(
            "PATCH", path, query=query, body=manifest, content_type=api_requests.APPLY
        )

    async def find_stack(self, namespace: str, name: str) -> Object | None:
        """Return the Stack, or None if it does not exist."""
        return await self._session.find(STACK, namespace, name)

    async def take_snapshot(self, namespace: str, name: str) -> StackObjects | None:
        """Return the Stack and its children at this moment, or None if it does not exist."""
        return await self._reader.read(StackLocation(STACK, namespace, name))


def is_established(definition: Object) -> bool:
    """Return whether the API server serves the kind."""
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions)


# The admission webhook of the demo, which the API server calls on this machine's loopback interface while the operator
# runs. Its rules match `manifests/install/webhook.yaml`.

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})
CHANGES_SPEC: Final = {
    "name": "spec-changes",
    "expression": 'request.operation == "CREATE" || object.spec != oldObject.spec',
}
LACKS_FINALIZER: Final = {
    "name": "finalizer-is-missing",
    "expression": (
        f'!has(object.metadata.finalizers) || !object.metadata.finalizers.exists(each, each == "{names.FINALIZER}")'
    ),
}
DECISION: Final = (
    f'["{names.REQUEST_APPROVE}", "{names.REQUEST_REJECT}", "%s"].exists(key, '
    '(has(object.metadata.annotations) && key in object.metadata.annotations ? object.metadata.annotations[key] : "") '
    "!= (oldObject != null && has(oldObject.metadata.annotations) && key in oldObject.metadata.annotations ? "
    'oldObject.metadata.annotations[key] : ""))'
)
"""Whether a write changes one of the annotations of decisions. To be completed by the annotation of the stamp."""
CHANGES_DECISION: Final = {"name": "decision-changes", "expression": DECISION % names.ANNOTATION_APPROVAL}
CHANGES_GATE: Final = {
    "name": "decision-or-gated-spec-changes",
    "expression": (
        f"{DECISION % names.ANNOTATION_APPROVALS} || "
        "(oldObject != null && has(oldObject.spec.rollout) && has(oldObject.spec.rollout.gates) && "
        "object.spec != oldObject.spec)"
    ),
}
AUTHOR_MATTERS: Final = {
    "name": "author-matters",
    "expression": (
        "[object, oldObject].exists(each, each != null && ( (has(each.spec) && has(each.spec.approval) && "
        "has(each.spec.approval.separateApprover) && each.spec.approval.separateApprover) || "
        f'(has(each.metadata.annotations) && "{names.ANNOTATION_AUTHORS}" in each.metadata.annotations)))'
    ),
}
CHANGES_AUTHORS: Final = {
    "name": "author-or-spec-changes",
    "expression": (
        "oldObject == null || object.spec != oldObject.spec || "
        f'(has(object.metadata.annotations) && "{names.ANNOTATION_AUTHORS}" in object.metadata.annotations ? '
        f'object.metadata.annotations["{names.ANNOTATION_AUTHORS}"] : "") != '
        f'(has(oldObject.metadata.annotations) && "{names.ANNOTATION_AUTHORS}" in oldObject.metadata.annotations ? '
        f'oldObject.metadata.annotations["{names.ANNOTATION_AUTHORS}"] : "")'
    ),
}
STRICT: Final = ("approvals.hearth.dev", "authors.hearth.dev", "gates.hearth.dev")
"""Webhooks without whose answer a write is denied."""
REINVOKED: Final = ("authors.hearth.dev",)
"""Webhooks whose answer depends on what other webhooks change."""
WEBHOOKS: Final = {
    "ValidatingWebhookConfiguration": (
        ("stacks.hearth.dev", ["stacks"], ["CREATE", "UPDATE"], [CHANGES_SPEC]),
        ("resourcegroups.hearth.dev", ["resourcegroups"], ["CREATE", "UPDATE"], [CHANGES_SPEC]),
        ("healthmarks.hearth.dev", ["healthmarks"], ["CREATE", "UPDATE"], [CHANGES_SPEC]),
        ("stacksnapshots.hearth.dev", ["stacksnapshots"], ["CREATE", "UPDATE"], [CHANGES_SPEC]),
        ("stacktemplates.hearth.dev", ["stacktemplates"], ["CREATE", "UPDATE"], [CHANGES_SPEC]),
        ("stackdefinitions.hearth.dev", ["stackdefinitions"], ["CREATE", "UPDATE"], [CHANGES_SPEC]),
    ),
    "MutatingWebhookConfiguration": (
        ("finalizer.hearth.dev", ["stacks", "resourcegroups"], ["CREATE"], [LACKS_FINALIZER]),
        ("approvals.hearth.dev", ["stackplans"], ["CREATE", "UPDATE"], [CHANGES_DECISION]),
        ("gates.hearth.dev", ["stackdefinitions"], ["CREATE", "UPDATE"], [CHANGES_GATE]),
        ("authors.hearth.dev", ["stacks"], ["CREATE", "UPDATE"], [AUTHOR_MATTERS, CHANGES_AUTHORS]),
    ),
}
"""Name, resources, operations and conditions of each webhook, by kind of configuration."""


@contextlib.asynccontextmanager
async def serving_webhook(
    connection: Connection, *, server: str, namespace: str | None
) -> AsyncIterator[Sequence[str]]:
    """Yield the flags that make the operator serve the webhook; none if the API server runs on another machine.

    server: the URL of the API server; namespace: the only one that is reviewed, None for all.
    """
    if parse.urlsplit(server).hostname not in LOOPBACK:
        yield ()
        return
    name, port = f"{NAME}-{namespace}" if namespace else NAME, operator_process.find_free_port()
    paths = []
    for kind in webhook_configuration.KINDS:
        paths.append(api_requests.object_path(kind, "", name))
        body = make_configuration(kind.name, name=name, port=port, namespace=namespace)
        query = api_requests.apply_query(manager=NAME, force=True)
        # A configuration that an earlier run left behind trusts another certificate.
        await remove(connection, paths[-1:])
        await connection.request("PATCH", paths[-1], query=query, body=body, content_type=api_requests.APPLY)
    try:
        yield (f"--webhook-address={operator_process.HOST}:{port}", f"--webhook-configuration={name}")
    finally:
        await remove(connection, paths)


async def remove(connection: Connection, paths: Sequence[str]) -> None:
    """Delete the configurations. If this fails, they only block the writes of `STRICT` while no operator answers."""
    for path in paths:
        with contextlib.suppress(errors.ApiStatusError, errors.Unreachable):
            await connection.request("DELETE", path)


def make_configuration(kind: str, *, name: str, port: int, namespace: str | None) -> Object:
    """Make one webhook configuration. port: on this machine; namespace: the only one reviewed, None for all."""
    within = {"matchLabels": {"kubernetes.io/metadata.name": namespace}} if namespace else {}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [
            make_webhook(*parts, url=f"https://{operator_process.HOST}:{port}/", within=within)
            for parts in WEBHOOKS[kind]
        ],
    }


def make_webhook(
    name: str,
    resources: list[str],
    operations: list[str],
    conditions: list[dict[str, str]],
    *,
    url: str,
    within: Object,
) -> dict[str, Any]:
    """Make one webhook. within: the namespace selector."""
    rule = {
        "apiGroups": [names.GROUP],
        "apiVersions": [names.VERSION],
        "operations": operations,
        "resources": resources,
        "scope": "Cluster" if resources in (["stacktemplates"], ["stackdefinitions"]) else "Namespaced",
    }
    return {
        "name": name,
        "rules": [rule],
        "matchConditions": conditions,
        "clientConfig": {"url": url},
        "namespaceSelector": within,
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail" if name in STRICT else "Ignore",
        "timeoutSeconds": 5,
        **({"reinvocationPolicy": "IfNeeded"} if name in REINVOKED else {}),
    }
