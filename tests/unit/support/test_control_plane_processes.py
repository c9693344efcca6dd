"""The ports of a component that was killed, until it is started again."""

from __future__ import annotations

import socket

import pytest

from support.real import control_plane_processes


def test_the_ports_of_a_component_are_read_off_its_command_line() -> None:
    etcd = ["etcd", "--listen-peer-urls=http://127.0.0.1:32751", "--listen-client-urls=http://127.0.0.1:32750"]
    other = ["--advertise-client-urls=http://127.0.0.1:1", "--initial-cluster=node0=http://127.0.0.1:2"]
    assert control_plane_processes.find_ports([*etcd, *other]) == [32750, 32751]
    server = ["kube-apiserver", "--secure-port=38909", "--etcd-servers=http://127.0.0.1:32750"]
    assert control_plane_processes.find_ports(server) == [38909]


def test_a_held_port_is_nobody_elses() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            server.accept()[0].close()
    with control_plane_processes.hold(port):
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
    socket.create_server(("127.0.0.1", port)).close()
