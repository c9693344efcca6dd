"""Manifests are cleaned before they enter a template: fields that the server and controllers added are removed,
everything else is kept.
"""

from __future__ import annotations

import copy
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import strategies

from hearth.cli.importer import manifest_cleanup
from hearth.template.blueprint import Definition, Known, StackIdentity
from hearth.template.compiler import compiler
from support.units.templates.typed_kinds import TypedKinds

TEXT = strategies.text(alphabet="${}ab \n'\"")
VALUES = strategies.recursive(
    TEXT | strategies.integers(0, 9) | strategies.booleans(),
    lambda inner: (
        strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.text("ab"), inner, max_size=3)
    ),
    max_leaves=8,
)


def make(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "a"}} | fields


def test_what_the_server_added_is_left_out() -> None:
    exported = make(
        metadata={
            "name": "a",
            "namespace": "b",
            "uid": "1",
            "resourceVersion": "2",
            "generation": 3,
            "creationTimestamp": "2024-01-01T00:00:00Z",
            "managedFields": [{}],
            "selfLink": "/a",
            "labels": {"app": "a", "hearth.dev/stack-uid": "4"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "kept"},
            "finalizers": ["example.org/kept"],
        },
        spec={"status": "kept", "uid": "kept"},
        status={"phase": "Running"},
    )

    assert manifest_cleanup.clean(exported) == make(
        metadata={
            "name": "a",
            "namespace": "b",
            "labels": {"app": "a"},
            "annotations": {"note": "kept"},
            "finalizers": ["example.org/kept"],
        },
        spec={"status": "kept", "uid": "kept"},
    )


def test_the_original_is_left_as_it_is() -> None:
    original = make(status={"a": "${b}"})

    manifest_cleanup.clean(original)

    assert original == make(status={"a": "${b}"})


def test_a_template_within_is_left_to_its_own_stack() -> None:
    inner = {"resources": {"web": {"manifest": {"data": {"a": "${params.a}"}}}}}
    nested = {
        "apiVersion": "hearth.dev/v1alpha1",
        "kind": "Stack",
        "spec": {"template": inner, "parameters": {"a": "${b}"}},
    }

    assert manifest_cleanup.clean(nested)["spec"] == {"template": inner, "parameters": {"a": "$${b}"}}


@hypothesis.given(VALUES)
def test_the_template_gives_the_manifest_back(value: Any) -> None:
    original = make(data=value)
    template = {"resources": {"thing": {"manifest": manifest_cleanup.clean(original)}}}
    identity = StackIdentity(name="shop", namespace="prod", uid="u-1")

    blueprint = compiler.compile_template(
        Definition(template=template, parameters={}), stack=identity, kinds=TypedKinds()
    )

    assert blueprint.resources["thing"].manifest.evaluate({}) == Known(original)


# ---------------------------------------------------------------- fields of an export that no person wrote

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  annotations: {deployment.kubernetes.io/revision: "3"}
  creationTimestamp: "2026-01-01T00:00:00Z"
  generation: 3
  labels: {app: web}
  name: web
  namespace: prod
  resourceVersion: "812"
  uid: 6a1b
spec:
  progressDeadlineSeconds: 600
  replicas: 2
  revisionHistoryLimit: 10
  selector: {matchLabels: {app: web}}
  strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 25%}, type: RollingUpdate}
  template:
    metadata: {annotations: {}, creationTimestamp: null, labels: {app: web}}
    spec:
      containers:
        - image: nginx:1.27
          imagePullPolicy: IfNotPresent
          name: web
          ports: [{containerPort: 80, protocol: TCP}]
          readinessProbe:
            failureThreshold: 5
            httpGet: {path: /, port: 80, scheme: HTTP}
            periodSeconds: 10
            successThreshold: 1
            timeoutSeconds: 1
          resources: {}
          terminationMessagePath: /dev/termination-log
          terminationMessagePolicy: File
      dnsPolicy: ClusterFirst
      restartPolicy: Always
      schedulerName: default-scheduler
      securityContext: {}
      serviceAccount: shop
      serviceAccountName: shop
      terminationGracePeriodSeconds: 30
      volumes: [{configMap: {defaultMode: 420, name: web}, name: c}]
status: {observedGeneration: 3}
"""
WRITTEN = """
apiVersion: apps/v1
kind: Deployment
metadata: {labels: {app: web}, name: web, namespace: prod}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - image: nginx:1.27
          name: web
          ports: [{containerPort: 80}]
          readinessProbe: {failureThreshold: 5, httpGet: {path: /, port: 80}}
      serviceAccountName: shop
      volumes: [{configMap: {name: web}, name: c}]
"""


def test_an_exported_deployment_becomes_what_was_written() -> None:
    exported = yaml.safe_load(DEPLOYMENT)
    original = copy.deepcopy(exported)

    cleaned = manifest_cleanup.clean(exported)

    assert cleaned == yaml.safe_load(WRITTEN)
    assert exported == original


def make_export(kind: str, spec: dict[str, Any], *, api_version: str = "v1", **metadata: Any) -> dict[str, Any]:
    stored = {"name": "a", "uid": "1", "resourceVersion": "2", **metadata}
    return {"apiVersion": api_version, "kind": kind, "metadata": stored, "spec": spec}


@pytest.mark.parametrize(
    ("exported", "spec"),
    [
        pytest.param(
            make_export(
                "Service",
                {
                    "clusterIP": "10.0.0.7",
                    "clusterIPs": ["10.0.0.7"],
                    "internalTrafficPolicy": "Cluster",
                    "ipFamilies": ["IPv4"],
                    "ipFamilyPolicy": "SingleStack",
                    "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}, {"port": 53, "protocol": "UDP"}],
                    "selector": {"app": "web"},
                    "sessionAffinity": "None",
                    "type": "ClusterIP",
                },
            ),
            {"ports": [{"port": 80}, {"port": 53, "protocol": "UDP"}], "selector": {"app": "web"}},
            id="a Service loses its address",
        ),
        pytest.param(
            make_export("Service", {"clusterIP": "None", "clusterIPs": ["None"], "ports": []}),
            {"clusterIP": "None", "ports": []},
            id="a headless Service stays headless",
        ),
        pytest.param(
            make_export(
                "PersistentVolumeClaim",
                {"volumeName": "pvc-1", "volumeMode": "Filesystem", "storageClassName": "fast"},
                annotations={"pv.kubernetes.io/bind-completed": "yes"},
            ),
            {"storageClassName": "fast"},
            id="a claim gets its own volume",
        ),
        pytest.param(
            make_export(
                "Job",
                {
                    "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "1"}},
                    "suspend": False,
                    "completions": 1,
                    "template": {
                        "metadata": {"labels": {"batch.kubernetes.io/controller-uid": "1", "app": "a"}},
                        "spec": {"containers": [{"image": "a", "imagePullPolicy": "Always"}], "restartPolicy": "Never"},
                    },
                },
                api_version="batch/v1",
            ),
            {
                "completions": 1,
                "template": {
                    "metadata": {"labels": {"app": "a"}},
                    "spec": {"containers": [{"image": "a"}], "restartPolicy": "Never"},
                },
            },
            id="a Job selects its own pods",
        ),
        pytest.param(
            make_export("Deployment", {"revisionHistoryLimit": True, "strategy": "none"}, api_version="apps/v1"),
            {"revisionHistoryLimit": True, "strategy": "none"},
            id="values of other types are left alone",
        ),
    ],
)
def test_what_controllers_fill_in_is_dropped(exported: dict[str, Any], spec: dict[str, Any]) -> None:
    cleaned = manifest_cleanup.clean(exported)

    assert cleaned["spec"] == spec
    assert cleaned["metadata"] == {"name": "a"}


def test_a_manifest_that_a_person_wrote_keeps_its_defaults() -> None:
    written = yaml.safe_load(DEPLOYMENT)
    written["metadata"] = {"name": "web", "annotations": {"deployment.kubernetes.io/revision": "3"}}
    del written["status"]

    assert not manifest_cleanup.is_export(written)
    assert manifest_cleanup.clean(written) == written


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("registry:5000/nginx", "Always"),
        ("nginx:latest", "Always"),
        ("nginx:1.27", "IfNotPresent"),
        ("nginx@sha256:00", "IfNotPresent"),
    ],
)
def test_the_default_of_the_pull_policy_depends_on_the_tag(image: str, policy: str) -> None:
    assert manifest_cleanup.find_pull_policy(image) == policy
