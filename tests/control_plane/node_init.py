"""The init process of a node's namespaces: starts all programs and reaps orphans.

When it ends, everything in the namespaces ends.

    node_init.py FOLDER PROGRAMS …

It writes `ready` into the folder once Pods can run, or `failed` with the reason. Everything from etcd to the containers
shares one network, mount and PID namespace.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn

import node_files

PATIENCE_SECONDS = 180.0
"""Ten times the duration on an idle machine."""
POLL_SECONDS = 0.1
PRIVATE = ("/run", "/var/log", "/var/lib")
"""Folders of the machine that runtime, kubelet and network plugins write to; here they are in memory."""


class Broken(Exception):
    """The node cannot start; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Node:
    """The programs of the node, and the order of their start."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def run(self) -> None:
        """Start all programs in the order of their dependencies."""
        self.isolate()
        self.start_control_plane()
        self.import_images()
        self.wait("the API server", lambda: self.ask("get", "--raw=/readyz") == "ok")
        self.start_controllers()
        self.wait("its storage", lambda: bool(self.ask("apply", "--filename", str(self.folder / "objects.json"))))
        self.wait("the node", lambda: "True" in self.ask("get", "node", node_files.NODE, f"--output={READY}"))
        self.wait("the ServiceAccount of Pods", lambda: bool(self.ask("get", "serviceaccount", "default")))

    def isolate(self) -> None:
        """Give the namespaces an address, and folders of their own."""
        for place in PRIVATE:
            if not self.folder.is_relative_to(place):
                call("mount", "-t", "tmpfs", "tmpfs", place)
        call("mount", "--make-rshared", "/")
        # Without this, pulling an unknown image queries the machine's name servers for a minute.
        resolver = Path("/etc/resolv.conf").resolve()
        resolver.parent.mkdir(parents=True, exist_ok=True)
        resolver.touch()
        call("mount", "--bind", str(self.folder / "resolv.conf"), str(resolver))
        call("ip", "link", "set", "lo", "up")
        call("ip", "link", "add", node_files.NODE, "type", "bridge")
        call("ip", "address", "add", f"{node_files.ADDRESS}/24", "dev", node_files.NODE)
        call("ip", "link", "set", node_files.NODE, "up")
        call("ip", "route", "add", "default", "dev", node_files.NODE)
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1")
        # If the kernel module is not loaded, bridged packets bypass the rules, and none are needed.
        with contextlib.suppress(OSError):
            Path("/proc/sys/net/bridge/bridge-nf-call-iptables").write_text("1")

    def start_control_plane(self) -> None:
        """Etcd, the container runtime and the API server need no other to start."""
        self.start(
            "etcd",
            *(f"--data-dir={self.folder}/etcd", "--unsafe-no-fsync", "--log-level=warn"),
            *("--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379"),
            "--listen-peer-urls=http://127.0.0.1:2380",
        )
        self.start("containerd", "--config", f"{self.folder}/containerd.toml")
        pki = self.folder / "pki"
        self.start(
            "kube-apiserver",
            *("--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0", "--secure-port=6443"),
            f"--advertise-address={node_files.ADDRESS}",
            *(f"--tls-cert-file={pki}/apiserver.crt", f"--tls-private-key-file={pki}/apiserver.key"),
            *(f"--client-ca-file={pki}/ca.crt", f"--service-account-key-file={pki}/service-accounts.key"),
            f"--service-account-signing-key-file={pki}/service-accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            *(f"--service-cluster-ip-range={node_files.SERVICES}", "--authorization-mode=Node,RBAC"),
            *("--enable-admission-plugins=NodeRestriction", "--allow-privileged=true"),
            *(f"--kubelet-client-certificate={pki}/admin.crt", f"--kubelet-client-key={pki}/admin.key"),
            *(f"--kubelet-certificate-authority={pki}/ca.crt", "--kubelet-preferred-address-types=InternalIP"),
        )

    def import_images(self) -> None:
        """Images that no registry has, each under the name that its path says."""
        self.wait("the container runtime", (self.folder / "containerd.sock").exists)
        images = self.folder / "images"
        for image in sorted(path for path in images.rglob("*") if path.is_file()):
            name, _, _ = str(image.relative_to(images)).rpartition(":")  # the archive says the tag
            command = ["ctr", "--address", f"{self.folder}/containerd.sock", "--namespace=k8s.io"]
            command += ["images", "import", "--snapshotter=overlayfs", f"--base-name={name}", str(image)]
            call(*command)

    def start_controllers(self) -> None:
        """Start all programs that need the API server. The controllers discover its kinds only at startup."""
        pki = self.folder / "pki"
        alone = ("--leader-elect=false", "--bind-address=127.0.0.1")
        self.start(
            "kube-controller-manager",
            *(f"--kubeconfig={self.folder}/controller-manager.kubeconfig", *alone),
            *(f"--root-ca-file={pki}/ca.crt", f"--service-account-private-key-file={pki}/service-accounts.key"),
            *(f"--cluster-signing-cert-file={pki}/ca.crt", f"--cluster-signing-key-file={pki}/ca.key"),
            *("--use-service-account-credentials", "--node-monitor-grace-period=20s"),
        )
        self.start("kube-scheduler", f"--kubeconfig={self.folder}/scheduler.kubeconfig", *alone)
        self.start(
            "kubelet",
            *(f"--config={self.folder}/kubelet.json", f"--kubeconfig={self.folder}/kubelet.kubeconfig"),
            *(f"--root-dir={self.folder}/kubelet", f"--cert-dir={self.folder}/kubelet/pki"),
            *(f"--hostname-override={node_files.NODE}", f"--node-ip={node_files.ADDRESS}"),
        )
        self.start("kube-proxy", f"--config={self.folder}/proxy.json")
        self.start("coredns", "-conf", f"{self.folder}/Corefile")

    def start(self, name: str, *arguments: str) -> None:
        """Start one program, with a log of its own."""
        with (self.folder / "log" / f"{name}.log").open("w") as log:
            self.processes[name] = subprocess.Popen(
                [name, *arguments], stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder
            )

    def wait(self, what: str, is_there: Callable[[], bool]) -> None:
        """Wait until the condition holds. Raises Broken if a program has ended, or after the time limit."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_there():
            for name, process in self.processes.items():
                if process.poll() is not None:
                    raise Broken(f"{name} ended: {read_end(self.folder / 'log' / f'{name}.log')}")
            if time.monotonic() > deadline:
                raise Broken(f"{what} was not there after {PATIENCE_SECONDS:.0f} s; logs are in {self.folder}/log")
            time.sleep(POLL_SECONDS)

    def ask(self, *arguments: str) -> str:
        """Return the output of kubectl; "" if it fails."""
        command = ["kubectl", f"--kubeconfig={self.folder}/admin.kubeconfig", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


READY = "jsonpath={.status.conditions[?(@.type=='Ready')].status}"


def call(*command: str) -> None:
    """Run a command and wait until it exits."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Broken(f"`{' '.join(command)}` failed: {done.stderr.strip() or done.stdout.strip()}")


def read_end(log: Path) -> str:
    """The last lines of a log."""
    return "\n".join(log.read_text(errors="replace").splitlines()[-5:])


def main(arguments: Sequence[str]) -> NoReturn:
    """Start all programs, then reap orphans until the signal to end."""
    folder, *programs = arguments
    # The first process of a PID namespace ignores a signal that it does not handle.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    os.environ["PATH"] = os.pathsep.join([*programs, "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"])
    os.environ["HOME"] = folder
    node = Node(Path(folder))
    try:
        node.run()
    except Broken as error:
        (Path(folder) / "failed").write_text(str(error))
        sys.exit(1)
    Path(folder, "ready").touch()
    while True:
        os.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
