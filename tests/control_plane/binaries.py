"""Builds the seven programs of the control plane.

The versions are only in `*/go.mod`.
"""

from __future__ import annotations

import os
from pathlib import Path

import go_programs
import places
import progress
from go_programs import Program

VARIABLE = "HEARTH_KUBERNETES"
"""Environment variable with the minor version to use, as in `1.35`; by default the one in `kubernetes/go.mod`."""

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
        Program(name=name, module=find_module(module), package=package, linker_flags=flags)
        for name, module, package in ALL
    ]
    return go_programs.build_together(programs, title="the control plane")


def find_module(name: str) -> Path:
    """The folder with the versions of these programs."""
    minor = os.environ.get(VARIABLE, "")
    if name != "kubernetes" or not minor or read_kubernetes(places.HERE / name).startswith(f"v{minor}."):
        return places.HERE / name
    module = places.HERE / f"kubernetes-{minor}"
    if not module.is_dir():
        known = sorted(read_kubernetes(each.parent) for each in places.HERE.glob("kubernetes*/go.mod"))
        raise progress.Impossible(f"{VARIABLE}={minor}: unknown version; the tests have {', '.join(known)}")
    return module


def pinned_kubernetes() -> str:
    """The version of Kubernetes that go.mod asks for, as in `v1.36.3`."""
    return read_kubernetes(find_module("kubernetes"))


def read_kubernetes(module: Path) -> str:
    """The version of Kubernetes in a go.mod."""
    return go_programs.read_pin(module, "k8s.io/kubernetes")


def linker_flags() -> str:
    """Flags for small programs and a correct server version: clients misbehave at v0.0.0."""
    version = pinned_kubernetes()
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())])
