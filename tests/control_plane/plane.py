"""Starts, checks and stops the control plane: etcd, API server, controller manager, scheduler, and kwok for the nodes.

It listens only on the loopback interface, and its kubeconfig is a separate file. `binaries` builds the programs.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import socket
import subprocess
import time
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path

import locks
import places
import processes
import progress

NODES = 2
PORTS = range(20_000, 30_000)
"""Ports of API servers: below those that outgoing connections get, and those that kwokctl chooses itself."""

# A start takes four seconds on an idle machine. The limit is generous for a busy one.
PATIENCE = timedelta(seconds=120)

# Their absence makes a control plane incomplete. kwokctl is there only while it starts the others.
COMPONENTS = frozenset({"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller"})
PROGRAMS = COMPONENTS | {"kwokctl"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """The settings of a control plane."""

    binaries: str
    limited: bool  # whether priority and fairness, and so throttling, are enabled
    kept: bool  # whether it stays up when it is unused
    audited: bool = False  # whether the API server writes a log of all requests
    authentication: str = ""  # file of the AuthenticationConfiguration, which names trusted issuers of tokens


def find(home: places.Home) -> Start | None:
    """How the control plane was started, if it runs, is complete and answers."""
    start = _read_record(home)
    if start is None:
        return None
    return start if not missing_components(home) and is_answering(home, start) else None


def find_processes(home: places.Home) -> dict[int, str]:
    """The running processes of the control plane: number → program."""
    return processes.find(PROGRAMS, using=home.folder)


def is_to_be_ended(home: places.Home) -> bool:
    """Whether the control plane was started only for its users, so it stops with the last of them."""
    start = _read_record(home)
    return start is not None and not start.kept


def missing_components(home: places.Home) -> frozenset[str]:
    """The components that are not running."""
    return COMPONENTS - set(processes.find(COMPONENTS, using=home.folder).values())


def is_answering(home: places.Home, start: Start) -> bool:
    """Whether the API server reports that it is ready."""
    answer = kubectl(home, start.binaries, "get", "--raw=/readyz", "--request-timeout=5s")
    return answer.returncode == 0 and answer.stdout.strip() == "ok"


def create(home: places.Home, start: Start) -> None:
    """Start the control plane, at most twice, and return when pods could be scheduled.

    kwokctl chooses ports before its components listen on them, so another program may take a port first.
    """
    try:
        _create(home, start)
    except progress.Impossible as error:
        progress.say(f"{error}\n  starting it once more")
        _create(home, start)


def _create(home: places.Home, start: Start) -> None:
    """Start the control plane after removing leftovers of an earlier one."""
    delete(home)
    home.workdir.mkdir(parents=True)
    home.log.write_text("")
    shutil.rmtree(home.logs_of_the_failed, ignore_errors=True)
    try:
        _start_components(home, start)
        _play_the_nodes(home, start)
        _wait_usable(home, start)
    except BaseException as reason:
        if isinstance(reason, progress.Impossible):
            _keep_logs(home)
        delete(home)
        raise
    remember(home, start)


def remember(home: places.Home, start: Start) -> None:
    """Record how the control plane was started; from now on it counts as complete."""
    beside = home.record.with_suffix(".new")
    beside.write_text(json.dumps(asdict(start)))
    beside.replace(home.record)


def delete(home: places.Home) -> None:
    """End every process of the control plane and remove its files, even if only parts of it remain."""
    home.record.unlink(missing_ok=True)
    processes.end(PROGRAMS, using=home.folder)
    shutil.rmtree(home.workdir, ignore_errors=True)
    for path in (home.kubeconfig, home.configuration):
        path.unlink(missing_ok=True)


def kubectl(home: places.Home, binaries: str, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run kubectl on the control plane."""
    command = [str(Path(binaries, "kubectl")), f"--kubeconfig={home.kubeconfig}", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, input=stdin)


def _read_record(home: places.Home) -> Start | None:
    """Also None if another version wrote the record; the control plane is then restarted."""
    try:
        return Start(**json.loads(home.record.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _start_components(home: places.Home, start: Start) -> None:
    home.configuration.write_text(_configuration(start))
    create_cluster = ["create", "cluster", "--runtime=binary", "--wait=90s", "--enable-crds=Stage"]
    # Without other replicas an election decides nothing; under heavy load its loser, the only one, would exit.
    no_election = [f"--extra-args={name}=leader-elect=false" for name in ("kube-controller-manager", "kube-scheduler")]
    places_ = [f"--kubeconfig={home.kubeconfig}", f"--config={home.configuration}"]
    limits = [] if start.limited else ["--disable-qps-limits"]
    if start.audited:
        limits += [f"--kube-audit-policy={places.HERE / 'audit.yaml'}"]
    if start.authentication:
        limits += [f"--extra-args=kube-apiserver=authentication-config={start.authentication}"]
    # kwokctl picks free ports long before anything listens on them: two at once pick the same ones.
    with locks.only_one(home.folder.parent / "starting", when_waiting=lambda: None):
        _kwokctl(home, start, *create_cluster, *places_, f"--kube-apiserver-port={_free_port()}", *limits, *no_election)


def _configuration(start: Start) -> str:
    """The options that kwokctl only reads from a file, and the paths of our programs; JSON is YAML.

    Without `bindAddress` everything would listen on all interfaces.
    """
    binaries = Path(start.binaries)
    options = {
        "bindAddress": "127.0.0.1",
        "etcdBinary": str(binaries / "etcd"),
        "kubeApiserverBinary": str(binaries / "kube-apiserver"),
        "kubeControllerManagerBinary": str(binaries / "kube-controller-manager"),
        "kubeSchedulerBinary": str(binaries / "kube-scheduler"),
        "kubectlBinary": str(binaries / "kubectl"),
        "kwokControllerBinary": str(binaries / "kwok"),
    }
    version = "config.kwok.x-k8s.io/v1alpha1"
    return json.dumps({"apiVersion": version, "kind": "KwokctlConfiguration", "options": options}, indent=2)


def _play_the_nodes(home: places.Home, start: Start) -> None:
    """Configure the simulated behavior of nodes and pods, then create the nodes; without the behavior they would never
    be ready.
    """
    stages = places.HERE / "stages.yaml"
    applied = kubectl(home, start.binaries, "apply", "--server-side", f"--filename={stages}")
    if applied.returncode != 0:
        raise progress.Impossible(f"cannot apply {stages}: {applied.stderr.strip()}")
    _kwokctl(home, start, "scale", "node", f"--replicas={NODES}")


def _wait_usable(home: places.Home, start: Start) -> None:
    deadline = time.monotonic() + PATIENCE.total_seconds()
    while missing := _missing_for_pods(home, start):
        if time.monotonic() > deadline:
            raise progress.Impossible(
                f"the control plane {home.name} runs, but after {PATIENCE.total_seconds():.0f} s {missing}; "
                f"look into {home.logs_of_the_failed}, and try again"
            )
        time.sleep(0.1)


def _missing_for_pods(home: places.Home, start: Start) -> str:
    """Objects that a Pod would still wait for, in words; empty if everything exists."""
    ready = '{range .items[*].status.conditions[?(@.type=="Ready")]}{.status}{" "}{end}'
    nodes = kubectl(home, start.binaries, "get", "nodes", f"--output=jsonpath={ready}").stdout.split()
    if nodes.count("True") < NODES:
        return f"only {nodes.count('True')} of {NODES} nodes are ready"
    account = kubectl(home, start.binaries, "get", "serviceaccount", "default", "--namespace=default")
    return "" if account.returncode == 0 else "there is no default service account"


def _kwokctl(home: places.Home, start: Start, *arguments: str) -> None:
    """Run kwokctl in its own session: its processes must not receive the Ctrl-C of the terminal."""
    with home.log.open("a") as log:
        outcome = subprocess.run(
            [str(Path(start.binaries, "kwokctl")), f"--name={home.name}", *arguments],
            env=environment(home, start.binaries),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            check=False,
        )
    if outcome.returncode != 0:
        raise progress.Impossible(
            f"cannot start the control plane {home.name}: `kwokctl {' '.join(arguments[:2])}` failed: {_reason(home)}\n"
            f"all that it said is in {home.log}; what components had logged by then, in {home.logs_of_the_failed}"
        )


def _reason(home: places.Home) -> str:
    """The last error that kwokctl logged, a line of JSON."""
    for line in reversed(home.log.read_text(errors="replace").splitlines()):
        with contextlib.suppress(ValueError, AttributeError):
            if reason := json.loads(line).get("err"):
                return str(reason).strip()
    return "it did not say why"


def environment(home: places.Home, binaries: str) -> dict[str, str]:
    """The current environment without variables that configure kwokctl or lead to another cluster."""
    ours = {key: value for key, value in os.environ.items() if not key.startswith("KWOK_") and key != "KUBECONFIG"}
    # kwokctl prefers a kubectl on PATH to the one that it was given.
    path = os.pathsep.join([binaries, ours.get("PATH", os.defpath)])
    return ours | {"KWOK_WORKDIR": str(home.workdir), "PATH": path}


def _keep_logs(home: places.Home) -> None:
    for logs in home.workdir.glob("clusters/*/logs"):
        shutil.copytree(logs, home.logs_of_the_failed, ignore_dangling_symlinks=True)


def _free_port() -> int:
    """Return a free port that no outgoing connection gets, so that a killed API server finds it free again."""
    for port in random.SystemRandom().sample(PORTS, k=len(PORTS)):
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no port from {PORTS[0]} to {PORTS[-1]} is free")
