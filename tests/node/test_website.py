"""A website: nginx serves pages from a ConfigMap, and visitors see no gap between two of its versions."""

from __future__ import annotations

from typing import Any

import node_images

from support.ecosystem import kinds
from support.node import node_cluster
from support.node.node_cluster import NodeUser

Object = dict[str, Any]
LABELS = {"app": "website"}
VISIT = 'while :; do timeout 2 wget -qO- "http://$1/" || echo nothing; sleep 0.1; done'


def make_site() -> Object:
    """A Stack of one page, its server and its Service. A new text makes a new ConfigMap and new Pods."""
    page = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"index.html": "${params.text}\n"}}
    container = {
        "name": "web",
        "image": node_images.NGINX,
        "ports": [{"containerPort": 80}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 1},
        # Until then, kube-proxy has removed the endpoint.
        "lifecycle": {"preStop": {"exec": {"command": ["sleep", "3"]}}},
        "volumeMounts": [{"name": "page", "mountPath": "/usr/share/nginx/html"}],
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "page", "configMap": {"name": "${page.metadata.name}"}}],
    }
    server = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": LABELS},
            "template": {"metadata": {"labels": LABELS}, "spec": spec},
        },
    }
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"selector": LABELS, "ports": [{"port": 80}]}}
    resources = {
        "page": {"manifest": page, "updatePolicy": {"replaceOn": ["data"]}},
        "server": {"manifest": server},
        "service": {"manifest": service},
    }
    stack = kinds.make_stack("website", resources)
    stack["spec"]["template"]["parameters"] = {"text": {"type": "string", "default": "first"}}
    return stack


def make_visitor() -> Object:
    """A Pod that prints what it reads, ten times a second."""
    container = {
        "name": "visitor",
        "image": node_images.WORKLOAD,
        "command": ["sh", "-c", VISIT, "visit", "website-service"],
    }
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "visitor"}, "spec": spec}


def test_visitors_see_the_former_page_until_the_next_one_is_served(user: NodeUser) -> None:
    def read_pages() -> list[str]:
        return user.kubectl.run("logs", "visitor").stdout.split()

    user.kubectl.apply([make_site()])
    user.kubectl.wait("stack/website", "condition=Ready")
    user.kubectl.apply([make_visitor()])
    node_cluster.wait_until("the first page", lambda: "first" in read_pages(), lambda: user.explain("website"))
    served = read_pages().index("first")

    user.kubectl.call(
        "patch", "stack", "website", "--type=merge", '--patch={"spec":{"parameters":{"text":"second"}}}'
    )  # fmt: skip
    user.kubectl.wait("stack/website", "jsonpath={.status.phase}=UpdateComplete")
    node_cluster.wait_until("the second page", lambda: read_pages()[-3:] == ["second"] * 3)

    assert set(read_pages()[served:]) == {"first", "second"}
