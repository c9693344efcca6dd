"""The seven programs of the control plane: built once from the pinned Go modules, kept outside the checkout.

The versions are in `*/go.mod` and nowhere else. Knows nothing of how the programs are started.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import failure
import locks
import places
import progress
import toolchain

MODULES = ("etcd", "kubernetes", "kwok")


@dataclass(frozen=True, slots=True)
class Binary:
    """One program, and the package of a pinned module that it is built from."""

    name: str
    module: str
    package: str


BINARIES = (
    Binary("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Binary("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Binary("kwokctl", "kwok", "sigs.k8s.io/kwok/cmd/kwokctl"),
    # The largest of Kubernetes first: the others share most of what it compiles, and so need seconds.
    Binary("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Binary("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Binary("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Binary("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
)


def folder() -> Path:
    """Where the programs of the pinned versions are, or will be."""
    digest = hashlib.sha256()
    for module in MODULES:
        for name in ("go.mod", "go.sum"):
            digest.update(f"{module}/{name}\0".encode() + places.HERE.joinpath(module, name).read_bytes())
    return places.cache() / "bin" / digest.hexdigest()[:16]


def ensure() -> Path:
    """Build what is missing; the folder that holds all seven."""
    built = folder()
    if _missing(built):
        with locks.only_one(
            built / ".lock",
            when_waiting=lambda: progress.say("another build of the control plane runs: waiting for it"),
        ):
            _build(_missing(built), built)
    return built


def _missing(built: Path) -> list[Binary]:
    return [binary for binary in BINARIES if not built.joinpath(binary.name).exists()]


def _build(missing: list[Binary], built: Path) -> None:
    if not missing:
        return
    for left_behind in built.glob(".*-*"):  # by a build that was killed
        shutil.rmtree(left_behind)
    go = toolchain.find_or_fetch(_least_go())
    progress.say(
        f"building {len(missing)} programs of the control plane with {go} into {built}\n"
        "  once per version of Kubernetes; all seven take some ten minutes on two cores"
    )
    started = time.monotonic()
    for binary in missing:
        with progress.step(f"  [{BINARIES.index(binary) + 1}/{len(BINARIES)}] {binary.name}") as tick:
            _build_one(binary, go=go, built=built, tick=tick)
    progress.say(f"  built in {time.monotonic() - started:.0f} s altogether")


def _build_one(binary: Binary, *, go: Path, built: Path, tick: progress.Tick) -> None:
    """Build into a name of its own and move it into place, so that an interruption leaves nothing half."""
    with tempfile.TemporaryDirectory(dir=built, prefix=f".{binary.name}-") as beside:
        product, log = Path(beside, binary.name), Path(beside, "log")
        command = [str(go), "build", "-buildvcs=false", "-trimpath", "-ldflags", linker_flags(), "-o", str(product)]
        with log.open("w") as output, _start([*command, binary.package], binary.module, output.fileno()) as process:
            _wait(process, tick)
        if process.returncode != 0:
            raise failure.Impossible(
                f"cannot build {binary.name} from {places.HERE / binary.module}/go.mod: go said\n{_tail(log)}\n"
                "what was built so far is kept; when the cause is gone, run the same command again"
            )
        product.rename(built / binary.name)


def _start(command: list[str], module: str, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=places.HERE / module,
        env=os.environ | toolchain.ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def _wait(process: subprocess.Popen[bytes], tick: progress.Tick) -> None:
    try:
        while process.poll() is None:
            tick()
            time.sleep(0.2)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def pinned_kubernetes() -> str:
    """The version of Kubernetes that go.mod asks for, as in `v1.36.3`."""
    found = re.search(r"k8s\.io/kubernetes (v\S+)", _text_of("kubernetes"))
    if found is None:
        raise failure.Impossible(f"{places.HERE}/kubernetes/go.mod names no version of k8s.io/kubernetes: restore it")
    return found[1]


def linker_flags() -> str:
    """Small programs, and a server that knows its version: clients that look at it misbehave at v0.0.0."""
    version = pinned_kubernetes()
    major, minor = version.removeprefix("v").split(".")[:2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in values.items())])


def _least_go() -> toolchain.Version:
    wanted = (re.search(r"^go (\S+)$", _text_of(module), re.MULTILINE) for module in MODULES)
    return max(toolchain.parse_version(line[1]) or (0, 0, 0) for line in wanted if line)


def _text_of(module: str) -> str:
    return places.HERE.joinpath(module, "go.mod").read_text()


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-lines:])
