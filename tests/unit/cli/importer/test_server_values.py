"""What no person wrote is dropped from an export, and nothing from a manifest that a person wrote."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from hearth.cli.importer import manifest_cleanup

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
    """Defaults that were changed stay, here the failures of the probe."""
    exported = yaml.safe_load(DEPLOYMENT)
    original = copy.deepcopy(exported)

    cleaned = manifest_cleanup.clean(exported)

    assert cleaned == yaml.safe_load(WRITTEN)
    assert exported == original


def make(kind: str, spec: dict[str, Any], *, api_version: str = "v1", **metadata: Any) -> dict[str, Any]:
    stored = {"name": "a", "uid": "1", "resourceVersion": "2", **metadata}
    return {"apiVersion": api_version, "kind": kind, "metadata": stored, "spec": spec}


@pytest.mark.parametrize(
    ("exported", "spec"),
    [
        pytest.param(
            make(
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
            make("Service", {"clusterIP": "None", "clusterIPs": ["None"], "ports": []}),
            {"clusterIP": "None", "ports": []},
            id="a headless Service stays headless",
        ),
        pytest.param(
            make(
                "PersistentVolumeClaim",
                {"volumeName": "pvc-1", "volumeMode": "Filesystem", "storageClassName": "fast"},
                annotations={"pv.kubernetes.io/bind-completed": "yes"},
            ),
            {"storageClassName": "fast"},
            id="a claim gets its own volume",
        ),
        pytest.param(
            make(
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
            make("Deployment", {"revisionHistoryLimit": True, "strategy": "none"}, api_version="apps/v1"),
            {"revisionHistoryLimit": True, "strategy": "none"},
            id="values of other types are left alone",
        ),
    ],
)
def test_what_controllers_fill_in_is_dropped(exported: dict[str, Any], spec: dict[str, Any]) -> None:
    """By kind, because the same field of another kind may be written by hand."""
    cleaned = manifest_cleanup.clean(exported)

    assert cleaned["spec"] == spec
    assert cleaned["metadata"] == {"name": "a"}


def test_a_manifest_that_a_person_wrote_keeps_its_defaults() -> None:
    """They are stated on purpose, and then they drift if another client changes them."""
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
    """As the API server computes it."""
    assert manifest_cleanup.find_pull_policy(image) == policy
