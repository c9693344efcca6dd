"""The script of the GitHub action and the GitLab template, with a simulated `kubectl stack` and code host."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from aiohttp import web

from hearth.cli.stack_commands import stack_group
from support import repository
from support.real.servers import stub_server
from support.real.servers.stub_server import Answer, StubServer, says

FOLDER = repository.MANIFESTS / "ci"
SCRIPT = FOLDER / "hearth-ci.sh"
COMMAND = """\
#!/bin/sh
echo "$*" >>"$PLAYED/calls"
cat "$PLAYED/$1.out" 2>/dev/null
cat "$PLAYED/$1.err" >&2 2>/dev/null
exit "$(cat "$PLAYED/$1.code" 2>/dev/null || echo 0)"
"""
PATH = f"{Path(sys.executable).parent}:/usr/bin:/bin"
MARK = "<!-- hearth: stacks -->"
GITHUB = "/repos/acme/shop/issues"
GITLAB = "/projects/7/merge_requests/3/notes"
REFUSED = says('{"message": "Resource not accessible by integration"}', code=403)
BOT = {"id": 41898282, "type": "Bot"}
"""The author of comments on GitHub that a job's own token writes."""
PERSON = {"id": 5, "type": "User"}
STOP = "::stop-commands::"


class Pipeline:
    """One run of the script in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.played = folder / "played"
        self.played.mkdir()
        command = folder / "kubectl-stack"
        command.write_text(COMMAND)
        command.chmod(0o755)
        self.environment = {"PATH": PATH, "PLAYED": str(self.played), "HEARTH_COMMAND": f"{command}"}

    def play(self, command: str, *, output: str = "", errors: str = "", code: int = 0) -> None:
        """Set the simulated output of a subcommand of `kubectl stack`."""
        for end, content in (("out", output), ("err", errors), ("code", str(code))):
            (self.played / f"{command}.{end}").write_text(content)

    def run(self, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run the script."""
        return subprocess.run(
            ["sh", str(SCRIPT)],
            cwd=self.folder,
            env=self.environment | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    async def run_with_host(self, answers: Mapping[str, Answer], **variables: str) -> tuple[Any, StubServer]:
        """Run the script in a pull request on GitHub, or a merge request on GitLab; these answers are the host's."""
        event = self.folder / "event.json"
        event.write_text(json.dumps({"pull_request": {"number": 3}}))
        # A job's own token has no user.
        async with stub_server.run_stub(stub_server.routes({"GET /user": REFUSED, **answers})) as host:
            on_github = {
                "GITHUB_REPOSITORY": "acme/shop",
                "GITHUB_EVENT_PATH": str(event),
                "GITHUB_API_URL": host.url,
                "HEARTH_TOKEN": "token-of-the-job",
            }
            done = await asyncio.to_thread(self.run, **on_github | {"HEARTH_DIFF": "shop.yaml"} | variables)
        return done, host

    @property
    def calls(self) -> list[str]:
        """The arguments of each call of `kubectl stack`."""
        return (self.played / "calls").read_text().splitlines()


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path)


def list_comments(*bodies: str, author: Mapping[str, Any] = BOT, word: str = "user") -> Answer:
    """A page of comments, numbered from 11; the further pages are empty. word: the code host's for the author."""
    found = [{"id": number, "body": body, word: author} for number, body in enumerate(bodies, 11)]

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        page = found if request.query["page"] == "1" else []
        return web.Response(body=orjson.dumps(page))

    return answer


def read_body(host: StubServer) -> str:
    """The text of the comment that was written last."""
    text: str = orjson.loads(host.bodies[-1])["body"]
    return text


def test_all_stages_run_and_leave_their_reports(pipeline: Pipeline) -> None:
    pipeline.play("lint", output='{"version": "2.1.0"}')
    pipeline.play("diff", output="# shop\n", code=1)

    done = pipeline.run(HEARTH_FILES="stacks\nmore stacks/a.yaml", HEARTH_TESTS="tests", HEARTH_DIFF="shop.yaml")

    assert (done.returncode, done.stderr) == (0, "")
    assert pipeline.calls == [
        "lint --allow-none --output sarif stacks more stacks/a.yaml",
        "test --junit hearth-tests.xml tests",
        "diff -f shop.yaml -o markdown",
    ]
    assert (pipeline.folder / "hearth-lint.sarif").read_text() == '{"version": "2.1.0"}'
    assert "#### `shop.yaml`\n\n# shop\n" in done.stdout


def test_only_lint_runs_by_default(pipeline: Pipeline) -> None:
    assert pipeline.run().returncode == 0
    assert pipeline.calls == ["lint --allow-none --output sarif ."]


@pytest.mark.parametrize(
    ("command", "output", "code", "message"),
    [
        ("lint", "{}", 1, "hearth: lint found mistakes; see hearth-lint.sarif"),
        ("lint", "", 1, "hearth: lint cannot read the files; check HEARTH_FILES"),
        ("lint", "", 2, "hearth: lint cannot read the files; check HEARTH_FILES"),
        ("test", "", 1, "hearth: tests failed; see hearth-tests.xml"),
        ("test", "", 2, "hearth: the tests cannot run; check HEARTH_TESTS"),
        ("diff", "", 2, "hearth: the change of shop.yaml cannot be previewed"),
    ],
)
def test_a_failed_stage_fails_the_pipeline_after_the_others(
    pipeline: Pipeline, command: str, output: str, code: int, message: str
) -> None:
    pipeline.play(command, output=output, code=code)

    done = pipeline.run(HEARTH_TESTS="tests", HEARTH_DIFF="shop.yaml")

    assert done.returncode == 1
    assert message in done.stderr.splitlines()
    assert {call.split()[0] for call in pipeline.calls} == {"lint", "test", "diff"}


@pytest.mark.parametrize("bodies", [(), ("Nice!", f"> {MARK}\nquoted")], ids=["none", "of others"])
async def test_the_first_run_writes_a_comment(pipeline: Pipeline, bodies: tuple[str, ...]) -> None:
    pipeline.play("diff", output="1 to change\n", code=1)
    answers = {f"GET {GITHUB}/3/comments": list_comments(*bodies), f"POST {GITHUB}/3/comments": says("{}", code=201)}

    done, host = await pipeline.run_with_host(answers)

    assert (done.returncode, done.stderr) == (0, "")
    assert host.asked[-1] == f"POST {GITHUB}/3/comments"
    assert host.requests[-1].headers["Authorization"] == "Bearer token-of-the-job"
    assert read_body(host) == f"{MARK}\n### Changes of Stacks\n\n#### `shop.yaml`\n\n1 to change\n\n"


async def test_later_runs_update_their_comment(pipeline: Pipeline) -> None:
    answers = {
        f"GET {GITHUB}/3/comments": list_comments("Nice!", f"{MARK}\nold"),
        f"PATCH {GITHUB}/comments/12": says("{}"),
    }

    done, host = await pipeline.run_with_host(answers)

    assert (done.returncode, host.asked[-1]) == (0, f"PATCH {GITHUB}/comments/12")
    assert read_body(host).endswith("No changes.\n")


async def test_a_person_with_a_token_updates_their_comment(pipeline: Pipeline) -> None:
    answers = {
        "GET /user": says('{"id": 5}'),
        f"GET {GITHUB}/3/comments": list_comments(f"{MARK}\nold", author=PERSON),
        f"PATCH {GITHUB}/comments/11": says("{}"),
    }

    done, host = await pipeline.run_with_host(answers)

    assert (done.returncode, host.asked[-1]) == (0, f"PATCH {GITHUB}/comments/11")


@pytest.mark.parametrize(
    ("user", "author"),
    [
        pytest.param(REFUSED, PERSON, id="token of the job"),
        pytest.param(says('{"id": 6}'), PERSON, id="token of a person"),
        pytest.param(says('{"id": 6}'), BOT, id="comment of a bot"),
    ],
)
async def test_a_comment_that_another_user_could_change_later_is_not_taken_over(
    pipeline: Pipeline, user: Answer, author: Mapping[str, Any]
) -> None:
    answers = {
        "GET /user": user,
        f"GET {GITHUB}/3/comments": list_comments(f"{MARK}\nlooks good", author=author),
        f"PATCH {GITHUB}/comments/11": says("{}"),
        f"POST {GITHUB}/3/comments": says("{}", code=201),
    }

    done, host = await pipeline.run_with_host(answers)

    assert (done.returncode, host.asked[-1]) == (0, f"POST {GITHUB}/3/comments")
    assert not [each for each in host.asked if each.startswith("PATCH")]


async def test_gitlab_has_the_same_comment(pipeline: Pipeline) -> None:
    answers = {
        "GET /user": says('{"id": 9}'),
        f"GET {GITLAB}": list_comments("Nice!", f"{MARK}\nold", author={"id": 9}, word="author"),
        f"PUT {GITLAB}/12": says("{}"),
    }
    async with stub_server.run_stub(stub_server.routes(answers)) as host:
        variables = {
            "CI_API_V4_URL": host.url,
            "CI_PROJECT_ID": "7",
            "CI_MERGE_REQUEST_IID": "3",
            "HEARTH_TOKEN": "glpat-1",
            "HEARTH_DIFF": "shop.yaml",
        }
        done = await asyncio.to_thread(pipeline.run, **variables)

    assert (done.returncode, done.stderr) == (0, "")
    assert host.asked == ["GET /user", f"GET {GITLAB}", f"PUT {GITLAB}/12"]
    assert host.requests[-1].headers["PRIVATE-TOKEN"] == "glpat-1"


async def test_a_token_without_permission_is_explained(pipeline: Pipeline) -> None:
    answers = {f"GET {GITHUB}/3/comments": list_comments(), f"POST {GITHUB}/3/comments": REFUSED}

    done, _ = await pipeline.run_with_host(answers)

    assert done.returncode == 1
    assert "hearth: cannot comment on GitHub: " in done.stderr
    assert "Resource not accessible by integration" in done.stderr
    assert "token-of-the-job" not in done.stderr + done.stdout


async def test_a_missing_token_is_explained(pipeline: Pipeline) -> None:
    done, host = await pipeline.run_with_host({}, HEARTH_TOKEN="")

    assert (done.returncode, host.asked) == (1, [])
    assert "HEARTH_TOKEN is not set" in done.stderr


@pytest.mark.parametrize("fence", ["```", "``````"])
async def test_a_long_change_fits_into_a_comment(pipeline: Pipeline, fence: str) -> None:
    pipeline.play("diff", output="```\nshort\n```\n" + f"{fence}diff\n" + "+ ```\n" * 20_000 + f"{fence}\n", code=1)
    answers = {f"GET {GITHUB}/3/comments": list_comments(), f"POST {GITHUB}/3/comments": says("{}", code=201)}

    done, host = await pipeline.run_with_host(answers)

    assert done.returncode == 0
    body = read_body(host)
    assert len(body) < 65_536
    assert body.endswith(f"+ ```\n{fence}\n\nThe rest is in the log of the pipeline.\n")


async def test_errors_of_a_preview_are_code_in_the_comment(pipeline: Pipeline) -> None:
    pipeline.play(
        "diff", errors="error: spec.a: found the text '```\n# Approved by @admin\n\n[x](http://evil)'\n", code=2
    )
    answers = {f"GET {GITHUB}/3/comments": list_comments(), f"POST {GITHUB}/3/comments": says("{}", code=201)}

    done, host = await pipeline.run_with_host(answers)

    assert done.returncode == 1
    _, _, quoted = read_body(host).partition("#### `shop.yaml`\n\n")
    assert "@admin" in quoted
    assert [line for line in quoted.splitlines() if line and not line.startswith("    ")] == []


def test_text_of_the_repository_is_no_command_for_github(pipeline: Pipeline) -> None:
    pipeline.play("lint", errors="::add-mask::a\n", code=1)
    pipeline.play("test", output="  ::error::b\n##[set-output name=c]d\n")

    runs = [pipeline.run(HEARTH_TESTS="tests", GITHUB_ACTIONS="true").stdout.splitlines() for _ in range(2)]

    tokens = [lines[0].removeprefix(STOP) for lines in runs]
    assert [(lines[0], lines[-1]) for lines in runs] == [(f"{STOP}{token}", f"::{token}::") for token in tokens]
    assert len(set(tokens)) == 2
    assert all(len(token) == 32 for token in tokens)


def test_reports_in_the_repository_are_replaced(pipeline: Pipeline) -> None:
    (pipeline.folder / "victim").write_text("precious")
    for report in ("hearth-lint.sarif", "hearth-tests.xml"):
        (pipeline.folder / report).symlink_to("victim")
    pipeline.play("lint", output="{}")

    pipeline.run()

    assert (pipeline.folder / "victim").read_text() == "precious"
    assert (pipeline.folder / "hearth-lint.sarif").read_text() == "{}"
    assert not (pipeline.folder / "hearth-tests.xml").exists()


async def test_a_push_without_a_request_is_not_commented(pipeline: Pipeline) -> None:
    (pipeline.folder / "push.json").write_text("{}")

    done, host = await pipeline.run_with_host({}, GITHUB_EVENT_PATH=str(pipeline.folder / "push.json"))

    assert (done.returncode, host.asked) == (0, [])


def test_the_action_passes_every_input_as_a_variable() -> None:
    action = yaml.safe_load((FOLDER / "action.yml").read_text())
    run = action["runs"]["steps"][0]

    assert set(action["inputs"]) - {"upload-sarif"} == {
        value.removeprefix("${{ inputs.").removesuffix(" }}") for value in run["env"].values()
    }
    assert "${{" not in run["run"]
    assert all(name in SCRIPT.read_text() for name in run["env"])


def test_the_script_calls_subcommands_and_options_that_exist() -> None:
    context = stack_group.stack.make_context("kubectl stack", ["list"], resilient_parsing=True)
    for name, options in (("lint", ("--allow-none", "--output")), ("test", ("--junit",)), ("diff", ("-f", "-o"))):
        command = stack_group.stack.get_command(context, name)
        assert command is not None
        known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert set(options) <= known
