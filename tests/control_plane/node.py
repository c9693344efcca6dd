"""A control plane with a real node: kubelet, container runtime, network, name server. Needs Linux and root.

    python tests/control_plane/node.py with -- COMMAND …   run a command on it, and end it afterwards
    python tests/control_plane/node.py up                  start it to stay, until `down`

Everything runs in namespaces of its own. Outside of them are files below the node's folder, a port of 127.0.0.1, a
cgroup and six sysctls, and a process, the keeper, that puts all of that back when its client ends, however that ends.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import binaries
import command
import go_programs
import image_debian
import locks
import node_files
import node_images
import node_init
import places
import processes
import progress
from go_programs import Program

CONTAINERD = "github.com/containerd/containerd/v2"
PLUGINS = "github.com/containernetworking/plugins/plugins"
OTHERS = (
    ("containerd", "containerd", f"{CONTAINERD}/cmd/containerd"),
    ("containerd-shim-runc-v2", "containerd", f"{CONTAINERD}/cmd/containerd-shim-runc-v2"),
    ("ctr", "containerd", f"{CONTAINERD}/cmd/ctr"),
    ("bridge", "cni", f"{PLUGINS}/main/bridge"),
    ("loopback", "cni", f"{PLUGINS}/main/loopback"),
    ("host-local", "cni", f"{PLUGINS}/ipam/host-local"),
    ("portmap", "cni", f"{PLUGINS}/meta/portmap"),
    ("coredns", "coredns", "."),
)
"""Name, module and package of the programs that are not of Kubernetes."""
TAGS = "no_btrfs no_devmapper no_zfs no_tracing"
DEBIAN = {"runc": "runc", "iptables": "iptables", "conntrack": "conntrack", "ip": "iproute2", "unshare": "util-linux"}
"""Package of Debian by the program that the node needs of it."""
SYSCTLS = (
    *("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops"),
    *("kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"),
)
"""Sysctls that a kubelet sets for the whole machine."""
CGROUPS, SYS = Path("/sys/fs/cgroup"), Path("/proc/sys")
NAMESPACES = ("--net", "--mount", "--uts", "--ipc", "--pid", "--fork", "--kill-child", "--mount-proc")
NEW_NETWORK = 0x4000_0000
"""CLONE_NEWNET."""
VARIABLE = "HEARTH_TEST_NODE"
"""The variable that names the node for the command."""
POLL_SECONDS = 0.1
IMPOSSIBLE = 2


@dataclass(frozen=True, slots=True)
class Keeper:
    """Starts a node, and restores the machine state outside of its namespaces afterward."""

    home: places.Home
    programs: list[Path]
    """Folders of the programs, the node's own first."""

    @property
    def folder(self) -> Path:
        """Folder for the files of this run."""
        return self.home.folder / "node"

    @property
    def cgroups(self) -> list[Path]:
        """The node's cgroups: one in each hierarchy of version 1, the only one of version 2."""
        is_unified = (CGROUPS / "cgroup.controllers").exists()
        parents = [CGROUPS] if is_unified else [path for path in CGROUPS.iterdir() if path.is_dir()]
        return [parent / f"hearth-{self.home.name}" for parent in parents]

    def keep(self, until: IO[str] | None) -> None:
        """Run the node until the pipe is closed; None: until a signal."""
        self.clear()
        listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        outer = None
        try:
            self.prepare(listener.getsockname()[1])
            # The kernel kills it if this process is killed.
            words = ["setpriv", "--pdeathsig=KILL", "unshare", *NAMESPACES, sys.executable, node_init.__file__]
            with (self.folder / "log" / "init.log").open("w") as log:
                outer = subprocess.Popen(
                    [*words, f"{self.folder}/", *map(str, self.programs)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            self.wait_ready(outer)
            threading.Thread(
                target=forward, args=(listener, find_child(outer.pid), "127.0.0.1", 6443), daemon=True
            ).start()
            self.home.record.touch()
            print("ready", flush=True)
            if until is not None:
                until.read()
            else:
                outer.wait()
        finally:
            if outer is not None and outer.poll() is None:
                # When this process has ended, all other processes of the namespaces have ended.
                os.kill(find_child(outer.pid), signal.SIGKILL)
                outer.wait()
            listener.close()
            self.clear()

    def prepare(self, port: int) -> None:
        """Record the outside state that will change, and write all files."""
        self.folder.mkdir(parents=True)
        for name, archive in node_images.ensure().items():
            link = self.folder / "images" / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(archive)
        for name in SYSCTLS:
            noted = self.home.folder / "sysctls" / name
            noted.parent.mkdir(parents=True, exist_ok=True)
            noted.write_text((SYS / name).read_text())
        for cgroup in self.cgroups:
            cgroup.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):  # a new cgroup of version 1 has no CPU
                if (cgroup / name).exists():
                    (cgroup / name).write_text((cgroup.parent / name).read_text())
        node_files.write(
            self.folder,
            programs=self.programs[0],
            port=port,
            cgroup=f"hearth-{self.home.name}",
            kubeconfig=self.home.kubeconfig,
        )

    def wait_ready(self, outer: subprocess.Popen[bytes]) -> None:
        """Return once Pods can run."""
        while not (self.folder / "ready").exists():
            if outer.poll() is not None:
                failed, log = self.folder / "failed", self.folder / "log" / "init.log"
                reason = failed.read_text() if failed.exists() else log.read_text().strip()
                raise progress.Impossible(f"the node does not come up: {reason}")
            time.sleep(POLL_SECONDS)

    def clear(self) -> None:
        """End all processes of the node, and restore the state outside, even if the node is only partly there."""
        self.home.record.unlink(missing_ok=True)
        # When the first process of the namespaces ends, the kernel ends all others, and removes mounts, links and
        # rules.
        processes.end(frozenset({"setpriv", "unshare"}), using=self.folder)
        processes.end(frozenset({Path(sys.executable).name}), using=self.folder)
        sysctls = self.home.folder / "sysctls"
        for noted in [path for path in sysctls.rglob("*") if path.is_file()]:
            (SYS / noted.relative_to(sysctls)).write_text(noted.read_text())
        shutil.rmtree(sysctls, ignore_errors=True)
        for cgroup in self.cgroups:
            remove_cgroup(cgroup)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.home.kubeconfig.unlink(missing_ok=True)


def remove_cgroup(cgroup: Path) -> None:
    """Remove a cgroup with those below; the kernel needs a moment to release the processes."""
    while cgroup.exists():
        for folder in sorted((path for path in cgroup.rglob("*") if path.is_dir()), reverse=True):
            with contextlib.suppress(OSError):
                folder.rmdir()
        with contextlib.suppress(OSError):
            cgroup.rmdir()
            return
        time.sleep(POLL_SECONDS)


def find_child(pid: int) -> int:
    """The only child of a process, started by `unshare`, with its PID outside of the namespace."""
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def forward(listener: socket.socket, pid: int, address: str, port: int) -> None:
    """Pass connections on to an address in the network namespace of a process, which this thread enters."""
    with Path(f"/proc/{pid}/ns/net").open() as namespace:
        if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), NEW_NETWORK) != 0:
            raise OSError(ctypes.get_errno(), "setns")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            inner_reader, inner_writer = await asyncio.open_connection(address, port)
            await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))
        writer.close()

    async def run() -> None:
        async with await asyncio.start_server(serve, sock=listener) as server:
            await server.serve_forever()

    asyncio.run(run())


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on one direction of a connection."""
    with contextlib.suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()


def check_machine() -> None:
    """Raise Impossible if no node can run here; install missing Debian packages."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise progress.Impossible("a real node needs Linux and root, for namespaces and containers of its own")
    missing = [package for program, package in DEBIAN.items() if shutil.which(program) is None]
    if not missing:
        return
    if shutil.which("apt-get") is None:
        raise progress.Impossible(f"a real node needs {', '.join(missing)}: install these packages, and try again")
    with progress.step(f"installing {', '.join(missing)}"):
        for words in (["update"], ["install", "--yes", "--no-install-recommends", *missing]):
            done = subprocess.run(
                ["apt-get", "-qq", *words],
                capture_output=True,
                text=True,
                check=False,
                env=os.environ | {"DEBIAN_FRONTEND": "noninteractive"},
            )
            if done.returncode != 0:
                raise progress.Impossible(f"cannot install {', '.join(missing)}: {done.stderr.strip()}")


def build_programs() -> list[Path]:
    """Return the folders of all programs; missing programs are built."""
    flags = binaries.linker_flags()
    kubernetes = [
        Program(
            name=name, module=places.HERE / "kubernetes", package=f"k8s.io/kubernetes/cmd/{name}", linker_flags=flags
        )
        for name in ("kubelet", "kube-proxy")
    ]
    others = [
        Program(name=name, module=places.HERE / module, package=package, tags=TAGS if module == "containerd" else "")
        for name, module, package in OTHERS
    ]
    return [go_programs.build_together([*kubernetes, *others], title="the node"), binaries.ensure()]


def keep(home: places.Home, arguments: argparse.Namespace) -> int:
    """Run a node until standard input is closed, or until a signal if it stays."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with locks.only_one(home.lock, when_waiting=lambda: progress.say(f"waiting for the end of the node {home.name}")):
        Keeper(home, [Path(each) for each in arguments.command[1:]]).keep(None if arguments.stay else sys.stdin)
    return 0


def start(home: places.Home, *, stay: bool = False) -> subprocess.Popen[str]:
    """Start a keeper, and return it when Pods can run. Unless the node stays, it ends with the keeper's input."""
    check_machine()
    programs = build_programs()
    node_images.ensure()
    words = [sys.executable, __file__, "--name", home.name, *(["--stay"] if stay else []), "keep", f"{home.folder}/"]
    home.folder.mkdir(parents=True, exist_ok=True)
    with progress.step(f"starting the node {home.name}"), home.log.open("w") as log:
        keeper = subprocess.Popen(
            [*words, *map(str, programs)],
            stdin=subprocess.DEVNULL if stay else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,  # Ctrl-C at the terminal is for the command
        )
        assert keeper.stdout is not None
        is_ready = keeper.stdout.readline() == "ready\n"
    if not is_ready:
        keeper.wait()
        raise progress.Impossible(home.log.read_text().strip().removeprefix("error: "))
    return keeper


def with_(home: places.Home, arguments: argparse.Namespace) -> int:
    """Run a command on a node; its exit code."""
    words = command.parse(arguments.command)
    os.environ[VARIABLE] = home.name
    if home.record.exists() and find_keepers(home):
        return command.run(words, kubeconfig=home.kubeconfig)
    with running(home):
        return command.run(words, kubeconfig=home.kubeconfig)


@contextlib.contextmanager
def running(home: places.Home) -> Iterator[Path]:
    """Run a node within the block, which gets the folder of the control plane's programs."""
    keeper = start(home)
    try:
        yield binaries.ensure()
    finally:
        for unpleasant in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(unpleasant, signal.SIG_IGN)
        release(keeper)


def release(keeper: subprocess.Popen[str]) -> None:
    """End a node that does not stay."""
    assert keeper.stdin is not None
    keeper.stdin.close()
    keeper.wait()


def up(home: places.Home, arguments: argparse.Namespace) -> int:
    """Start a node that stays."""
    if not (home.record.exists() and find_keepers(home)):
        start(home, stay=True)
    progress.say(f"kubeconfig: {home.kubeconfig}")
    return 0


def down(home: places.Home, arguments: argparse.Namespace) -> int:
    """End a node, or clean up its leftovers."""
    check_machine()
    for keeper in find_keepers(home):
        os.kill(keeper, signal.SIGTERM)
    with locks.only_one(home.lock, when_waiting=lambda: None):
        Keeper(home, []).clear()
    return 0


def find_keepers(home: places.Home) -> list[int]:
    """The processes that keep the node."""
    return [
        number
        for number in processes.find(frozenset({Path(sys.executable).name}), using=home.folder)
        if b"keep" in Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    ]


def main() -> int:
    """Run the command line; return the exit code."""
    actions = {"with": with_, "up": up, "down": down, "keep": keep}
    parser = argparse.ArgumentParser(
        prog="node.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", default="node", help="which node; several may be up (default: node)")
    parser.add_argument("--stay", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("action", choices=sorted(actions), help="`keep` is for the other ones")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after `--`")
    arguments = parser.parse_args()
    try:
        return actions[arguments.action](places.Home(arguments.name), arguments)
    except (progress.Impossible, image_debian.Impossible) as error:
        progress.say(f"error: {error}")
        return IMPOSSIBLE


if __name__ == "__main__":
    sys.exit(main())
