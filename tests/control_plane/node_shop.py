"""Run a command on a node that has what manifests/examples/three-tier.yaml needs, and show the page of its shop.

    python tests/control_plane/node_shop.py -- COMMAND …

The images are on each node. Here are the Secret with the password of the database, and a port of this machine that
reaches the shop. The node ends with the command.
"""

from __future__ import annotations

import argparse
import json
import secrets
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import command
import image_debian
import places
import processes
import progress

import node

ADDRESS = "10.96.80.80"
"""Address of the page's Service. Programs on the machine cannot resolve names of the cluster."""
LABELS = {"app": "store", "tier": "api"}


def make_objects() -> list[dict[str, Any]]:
    """The objects that the Stack expects in its namespace, including a Service with a fixed address for its page."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "store-password"},
            "stringData": {"password": secrets.token_hex(16)},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "page"},
            "spec": {"clusterIP": ADDRESS, "selector": LABELS, "ports": [{"port": 80, "targetPort": "http"}]},
        },
    ]


def prepare(kubectl: Path, home: places.Home, *, namespace: str) -> None:
    """Create these objects."""
    done = subprocess.run(
        [kubectl, f"--kubeconfig={home.kubeconfig}", f"--namespace={namespace}", "create", "--filename=-"],
        input=json.dumps({"apiVersion": "v1", "kind": "List", "items": make_objects()}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise progress.Impossible(f"cannot create the Secret of the example: {done.stderr.strip()}")


def open_page(home: places.Home) -> int:
    """Serve the page on a port of this machine as long as this process lives; its number."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    inside = next(iter(processes.find(frozenset({"etcd"}), using=home.folder)))
    threading.Thread(target=node.forward, args=(listener, inside, ADDRESS, 80), daemon=True).start()
    return int(listener.getsockname()[1])


def main() -> int:
    """Run the command on the node; return its exit code."""
    parser = argparse.ArgumentParser(
        prog="node_shop.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--name", default="example", help="of the node (default: example)")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="after `--`")
    arguments = parser.parse_args()
    home = places.Home(arguments.name)
    try:
        with node.running(home) as programs:
            prepare(programs / "kubectl", home, namespace="default")
            progress.say(f"the page of the shop, once the API is ready: http://127.0.0.1:{open_page(home)}/")
            return command.run(arguments.command, kubeconfig=home.kubeconfig)
    except (progress.Impossible, image_debian.Impossible) as error:
        progress.say(f"error: {error}")
        return node.IMPOSSIBLE
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
