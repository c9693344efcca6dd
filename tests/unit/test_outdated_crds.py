"""The process ends before it stands for election if the CustomResourceDefinitions on the server are older."""

from __future__ import annotations

import asyncio
import copy
import json
import sys
from pathlib import Path

import orjson

from hearth.model.api import crd
from support.real.servers import stub_server
from support.real.servers.stub_server import says

PROGRAM = Path(__file__).resolve().parent.parent / "support" / "real" / "idle_operator.py"
PATH = "GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions"
KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: here
contexts: [{{name: here, context: {{cluster: here, user: admin}}}}]
clusters: [{{name: here, cluster: {{server: "{url}"}}}}]
users: [{{name: admin, user: {{token: some-token}}}}]
"""


async def test_the_process_refuses_to_run_and_says_the_command(tmp_path: Path) -> None:
    """In one sentence, with an exit code that a supervisor takes for a failure."""
    definitions = {each["metadata"]["name"]: copy.deepcopy(each) for each in crd.make_crds()}
    del definitions["stacks.hearth.dev"]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]
    answers = {f"{PATH}/{name}": says(orjson.dumps(each)) for name, each in definitions.items()}

    async with stub_server.run_stub(stub_server.routes(answers)) as server:
        kubeconfig = tmp_path / "config"
        kubeconfig.write_text(KUBECONFIG.format(url=server.url))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(PROGRAM), str(kubeconfig)), stderr=asyncio.subprocess.PIPE
        )
        _, said = await asyncio.wait_for(process.communicate(), 60)

    (line,) = [json.loads(line) for line in said.splitlines()]
    assert process.returncode == 1
    assert line["event"] == "cannot start"
    assert "stacks.hearth.dev lacks status. Update them: hearth crds | kubectl apply --server-side" in line["reason"]
