"""Builds the seven programs of the control plane.

The versions are only in `*/go.mod`.
"""

from __future__ import annotations

from pathlib import Path

import go_programs
import places
from go_programs import Program

ALL = (
    ("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    ("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    ("kwokctl", "kwok", "sigs.k8s.io/kwok/cmd/kwokctl"),
    # The largest of Kubernetes first: the others share most of its packages, and then compile within seconds.
    ("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
)
"""Name, module and package of each program."""


def ensure() -> Path:
    """Build missing programs; returns the folder that holds all seven."""
    flags = linker_flags()
    programs = [
        Program(name=name, module=places.HERE / module, package=package, linker_flags=flags)
        for name, module, package in ALL
    ]
    return go_programs.build_together(programs, title="the control plane")


def pinned_kubernetes() -> str:
    """The version of Kubernetes that go.mod asks for, as in `v1.36.3`."""
    return go_programs.read_pin(places.HERE / "kubernetes", "k8s.io/kubernetes")


def linker_flags() -> str:
    """Flags for small programs and a correct server version: clients misbehave at v0.0.0."""
    version = pinned_kubernetes()
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())])
