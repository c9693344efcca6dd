"""The process life cycle with a simple engine: start, signals, order, exit.

Each test runs a separate process, because signals and exit codes belong to a process.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import pstats
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from hearth.model.api import crd
from support import repository
from support.real.servers import stub_server
from support.real.servers.stub_server import says

PROGRAM = repository.TESTS / "support" / "real" / "idle_operator.py"

NOWHERE = "https://127.0.0.1:9"
"""No server listens there: kopf keeps retrying, which must prevent neither the start nor the exit."""
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: admin}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: admin, user: {{token: some-token}}}}]
"""


def write_kubeconfig(folder: Path, url: str) -> Path:
    file = folder / "config"
    file.write_text(KUBECONFIG.format(url=url))
    return file


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    return write_kubeconfig(tmp_path, NOWHERE)


@contextlib.contextmanager
def started(kubeconfig: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The process, once it reports its start."""
    command = [sys.executable, str(PROGRAM), str(kubeconfig), *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                if json.loads(line)["event"] == "started":
                    break
            yield process
        finally:
            process.kill()


def read_events(process: subprocess.Popen[str]) -> list[str]:
    """The events that it logs until it exits; kopf may log more while it exits."""
    assert process.stderr is not None
    lines = [json.loads(line) for line in process.stderr]
    return [line["event"] for line in lines if line["logger"].startswith("hearth") or line["logger"] == "__main__"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_everything_in_order(kubeconfig: Path, tmp_path: Path, number: signal.Signals) -> None:
    with started(kubeconfig, "--profile", str(tmp_path / "profile")) as process:
        process.send_signal(number)
        events = read_events(process)

        assert events == ["stopping", "engine stopped", "stopped"]
        assert process.wait(30) == 0
    stats = pstats.Stats(str(tmp_path / "profile")).stats  # type: ignore[attr-defined]  # the stubs leave it out
    assert {"run_operator", "stop"} <= {name for _file, _line, name in stats}


def test_a_second_signal_ends_it_at_once(kubeconfig: Path) -> None:
    with started(kubeconfig, "--hang") as process:
        assert process.stderr is not None
        process.send_signal(signal.SIGINT)
        assert json.loads(process.stderr.readline())["event"] == "stopping"
        process.send_signal(signal.SIGINT)

        assert process.wait(30) == -signal.SIGINT


def test_time_ends_what_hangs(kubeconfig: Path) -> None:
    """It must exit within five seconds even if something hangs; the exit code shows that it was forced."""
    with started(kubeconfig, "--hang", "--grace", "0.2") as process:
        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == 1


def test_credentials_that_cannot_be_read_are_reported_in_a_sentence(tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(tmp_path / "missing")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    (line,) = [json.loads(line) for line in done.stderr.splitlines()]
    assert done.returncode == 1
    assert line["event"] == "cannot start"
    assert f"no kubeconfig at {tmp_path}/missing; pass one with --kubeconfig" in line["reason"]


# The process exits before the leader election if the CRDs on the server are older, and reports an older server.


DEFINITIONS = "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def test_the_process_refuses_to_run_and_says_the_command(tmp_path: Path) -> None:
    definitions = {each["metadata"]["name"]: copy.deepcopy(each) for each in crd.make_crds()}
    del definitions["stacks.hearth.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    answers = {f"{DEFINITIONS}/{name}": says(orjson.dumps(each)) for name, each in definitions.items()}
    answers["GET /version"] = says('{"gitVersion": "v1.29.1"}')

    async with stub_server.run_stub(stub_server.routes(answers)) as server:
        kubeconfig = write_kubeconfig(tmp_path, server.url)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(PROGRAM), str(kubeconfig)), stderr=asyncio.subprocess.PIPE
        )
        _, said = await asyncio.wait_for(process.communicate(), 60)

    warning, line = [json.loads(line) for line in said.splitlines()]
    assert process.returncode == 1
    assert warning["event"] == "the API server is older than this operator supports; upgrade Kubernetes"
    assert (warning["level"], warning["version"], warning["minimum"]) == ("warning", "v1.29", "1.30")
    assert line["event"] == "cannot start"
    assert "stacks.hearth.dev lacks status. Update them: hearth crds | kubectl apply --server-side" in line["reason"]
