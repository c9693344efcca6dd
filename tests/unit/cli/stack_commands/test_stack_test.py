"""`kubectl stack test`: tests of Stacks, run by the engine in a simulated cluster."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click.testing
import jsonschema
import pytest
import yaml

from hearth.cli.commands import schema
from hearth.cli.stack_commands import stack_group
from hearth.cli.stack_views.files import editor_schemas
from hearth.cli.stack_views.stack_tests import stack_test_report
from hearth.cli.stack_views.stack_tests.stack_test_report import CaseResult
from support import repository

STACK = """
apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: shop}
spec:
  parameters: {greeting: hello, password: unspeakable-1}
  template:
    parameters:
      greeting: {type: string, maxLength: 10}
      password: {type: string, sensitive: true}
      debug: {type: boolean, default: false}
    resources:
      gateway:
        externalRef: {apiVersion: v1, kind: ConfigMap, metadata: {name: gateway}}
        optional: true
      config:
        manifest:
          apiVersion: v1
          kind: ConfigMap
          data:
            greeting: ${params.greeting}
            host: "${has(gateway.data) ? gateway.data.host : 'none'}"
      login:
        manifest: {apiVersion: v1, kind: Secret, stringData: {password: "${params.password}", plain: literal-text}}
      web:
        updatePolicy: {replace: CreateFirst}
        manifest:
          apiVersion: apps/v1
          kind: Deployment
          spec:
            replicas: 1
            selector: {matchLabels: {app: "${params.greeting}"}}
            template:
              metadata: {labels: {app: "${params.greeting}"}}
              spec: {serviceAccountName: "${config.metadata.name}", containers: [{name: web, image: web}]}
      page:
        readyWhen: [page.status.phase == 'Up']
        manifest: {apiVersion: example.org/v1, kind: Page, spec: {web: "${web.metadata.name}", password: "${params.password}"}}
      probe:
        when: params.debug
        manifest: {apiVersion: v1, kind: ConfigMap, data: {page: "${page.status.url}"}}
    outputs:
      url: {value: "${page.status.url}"}
"""
TEMPLATE = """
apiVersion: hearth.dev/v1alpha1
kind: StackTemplate
metadata: {name: items}
spec:
  template:
    parameters: {names: {type: array, items: {type: string}}}
    resources:
      entry:
        forEach: ${params.names}
        key: ${item}
        manifest: {apiVersion: v1, kind: ConfigMap, data: {name: "${item}"}}
"""
GROUP = """
apiVersion: hearth.dev/v1alpha1
kind: ResourceGroup
metadata: {name: workers}
spec:
  replicas: 2
  template: {manifest: {apiVersion: v1, kind: ConfigMap, data: {number: "${string(index)}"}}}
"""
DEFINITION = """
apiVersion: hearth.dev/v1alpha1
kind: StackDefinition
metadata: {name: webapps.platform.example}
spec:
  group: platform.example
  names: {kind: WebApp, plural: webapps}
  versions: [{name: v1}]
  defaults: {retry: {limit: 2}}
  template:
    parameters:
      title: {type: string}
      password: {type: string, sensitive: true}
    resources:
      login:
        manifest: {apiVersion: v1, kind: Secret, stringData: {password: "${params.password}"}}
      page:
        manifest: {apiVersion: v1, kind: ConfigMap, data: {title: "${params.title}", login: "${login.metadata.name}"}}
    outputs:
      page: {value: "${page.metadata.name}"}
"""
LITERAL = """
apiVersion: hearth.dev/v1alpha1
kind: StackTemplate
metadata: {name: shared}
spec: {template: {resources: {only: {manifest: {apiVersion: v1, kind: ConfigMap, data: {a: b}}}}}}
---
apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: user}
spec: {templateRef: {kind: StackTemplate, name: shared}}
"""
REMOTE = """
apiVersion: hearth.dev/v1alpha1
kind: Stack
metadata: {name: tenants}
spec:
  kubeConfig: {secretRef: {name: other}}
  template: {resources: {tenant: {manifest: {apiVersion: v1, kind: Namespace, metadata: {name: acme}}}}}
"""
COSTLY = f"""
apiVersion: hearth.dev/v1alpha1
kind: StackDefinition
metadata: {{name: webapps.platform.example}}
spec:
  group: platform.example
  names: {{kind: WebApp, plural: webapps}}
  versions: [{{name: v1}}]
  template:
    parameters:
      numbers: {{type: array, items: {{type: integer}}, default: {[*range(95)]}}}
    resources:
      page:
        manifest:
          apiVersion: v1
          kind: ConfigMap
          data: {{pairs: "${{string(params.numbers.map(i, params.numbers.map(j, i + j).size()).size())}}"}}
"""
"""A definition with an expression that is evaluated in a separate process."""
FILES = {
    "costly": COSTLY,
    "remote": REMOTE,
    "shop": STACK,
    "items": TEMPLATE,
    "workers": GROUP,
    "webapps": DEFINITION,
    "user": LITERAL,
}


def invoke(*arguments: str) -> click.testing.Result:
    return click.testing.CliRunner().invoke(stack_group.stack, ["test", *arguments])


def write_tests(file: Path, *tests: dict[str, Any], **fields: Any) -> None:
    document = {"apiVersion": "hearth.dev/v1alpha1", "kind": "StackTest", "tests": list(tests)} | fields
    file.write_text(yaml.safe_dump(document))


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., tuple[int, list[str]]]:
    """Runs tests of one file; returns the exit code, and the differences or errors without their place."""

    def run_tests(subject: str, *cases: str, **fields: Any) -> tuple[int, list[str]]:
        (tmp_path / f"{subject}.yaml").write_text(FILES[subject])
        tests = [{"name": f"case {number}"} | yaml.safe_load(case) for number, case in enumerate(cases, 1)]
        file = tmp_path / f"{subject}.stacktest.yaml"
        write_tests(file, *tests, **fields)
        done = invoke(str(file))
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        lines = done.output.replace(f"{tmp_path}/", "").splitlines()
        return done.exit_code, [line.strip() for line in lines if line.startswith(("      ", "error: ", "Error: "))]

    return run_tests


PASSING = {
    "a played status reaches dependents and outputs": (
        "shop",
        """
        parameters: {debug: true}
        play: {page: {status: {url: "http://shop"}}}
        expect:
          phase: CreateComplete
          order: [config, web, page, probe]
          objects: {probe: {data: {page: "http://shop"}}}
          outputs: {url: "http://shop"}
        """,
    ),
    "excluded resources have no object": ("shop", "expect: {absent: [probe], exist: [config, login, web, page]}"),
    "an object in the cluster is read": (
        "shop",
        """
        objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: gateway}, data: {host: example.org}}]
        expect: {objects: {config: {data: {host: example.org}}}}
        """,
    ),
    "an absent object is absent": ("shop", "expect: {objects: {config: {data: {host: none}, binaryData: null}}}"),
    "readyWhen decides on request": (
        "shop",
        """
        play: {page: {health: Rules, status: {phase: Starting}}}
        within: 5m
        expect: {phase: CreateInProgress, message: page}
        then:
          - play: {page: {health: Rules, status: {phase: Up}}}
            expect: {phase: CreateComplete, same: [page]}
        """,
    ),
    "health rules decide on request": (
        "shop",
        """
        play: {web: {health: Rules, status: {conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}}
        expect: {phase: CreateFailed, reason: ProgressDeadlineExceeded, absent: [page]}
        """,
    ),
    "an object that was ready is checked again on request": (
        "shop",
        """
        then:
          - play: {page: {health: Rules, status: {phase: Down}}}
            within: 5m
            expect: {ready: false, message: page, same: [page]}
        """,
    ),
    "a suspended object keeps its fields, and is resumed": (
        "shop",
        """
        then:
          - spec: {suspended: true}
            expect: {phase: SuspendComplete, same: [web], objects: {web: {spec: {replicas: 0, selector: {matchLabels: {app: hello}}}}}}
          - spec: {suspended: false}
            expect: {phase: ResumeComplete, same: [web], objects: {web: {spec: {replicas: 1}}}}
        """,
    ),
    "objects in another cluster may be anywhere": (
        "remote",
        "expect: {phase: CreateComplete, exist: [tenant]}",
    ),
    "objects of this cluster are in its namespace": (
        "remote",
        "{spec: {kubeConfig: null}, expect: {ready: false, exist: []}}",
    ),
    "a failed object fails the Stack": (
        "shop",
        """
        play: {web: {health: Failed, message: no image}}
        expect: {phase: CreateFailed, message: no image, absent: [page]}
        """,
    ),
    "a failed object with readyWhen fails the Stack": (
        "shop",
        "{play: {page: {health: Failed, message: no page}}, expect: {phase: CreateFailed, message: no page}}",
    ),
    "a Stack that waits reaches its timeout": (
        "shop",
        """
        spec: {timeout: 20m}
        play: {page: {health: Progressing, message: still starting}}
        expect: {phase: CreateFailed, message: not reached within 20m}
        """,
    ),
    "time for a step ends": (
        "shop",
        """
        spec: {timeout: 20m}
        within: 10m
        play: {page: {health: Progressing}}
        expect: {phase: CreateInProgress}
        """,
    ),
    "refused writes are retried": ("shop", "{fail: {times: 8, code: 503}, expect: {phase: CreateComplete}}"),
    "a write number is counted": (
        "shop",
        "{fail: {write: 3, code: 422, message: bad}, expect: {phase: CreateFailed, exist: [config, login]}}",
    ),
    "a mistake in a manifest is final": (
        "shop",
        """
        fail: {resource: web, code: 422, message: unknown field}
        expect: {phase: CreateFailed, message: unknown field, exist: [config, login]}
        """,
    ),
    "retries are limited": (
        "shop",
        "{spec: {retry: {limit: 2}}, fail: {resource: web, message: disk full}, expect: {phase: CreateFailed}}",
    ),
    "a failed update is rolled back": (
        "shop",
        """
        spec: {rollback: {onFailure: true}}
        then:
          - parameters: {greeting: bye}
            play: {web: {health: Failed, message: no image}}
            expect:
              phase: RollbackComplete
              message: no image
              same: [config, web]
              objects: {config: {data: {greeting: hello}}}
        """,
    ),
    "an immutable field leads to another object": (
        "shop",
        """
        then:
          - parameters: {greeting: bye}
            play: {web: {immutable: [spec.selector]}}
            expect: {phase: UpdateComplete, replaced: [web], same: [config, page], deleted: [web]}
        """,
    ),
    "an invalid parameter is rejected": (
        "shop",
        "{parameters: {greeting: far-too-long}, expect: {rejected: [spec.parameters.greeting, at most 10]}}",
    ),
    "an unknown option is rejected": ("shop", "{spec: {tmeout: 5m}, expect: {rejected: [spec.tmeout]}}"),
    "a rejected change keeps the objects": (
        "shop",
        """
        then:
          - parameters: {greeting: far-too-long}
            expect: {rejected: [greeting], objects: {config: {data: {greeting: hello}}}, same: [web]}
        """,
    ),
    "null removes a parameter": (
        "shop",
        "{parameters: {greeting: null}, expect: {rejected: [spec.parameters.greeting]}}",
    ),
    "the namespace is chosen": (
        "shop",
        "{metadata: {name: blue, namespace: prod}, expect: {objects: {web: {metadata: {name: blue-web, namespace: prod}}}}}",
    ),
    "a template is tested as a Stack": (
        "items",
        """
        parameters: {names: [a, b]}
        expect: {objects: {"entry[a]": {data: {name: a}}}, exist: ["entry[a]", "entry[b]"]}
        then:
          - parameters: {names: [b]}
            expect: {phase: UpdateComplete, deleted: ["entry[a]"], same: ["entry[b]"]}
        """,
    ),
    "health of a collection is played for all members": (
        "items",
        "{parameters: {names: [a, b]}, play: {entry: {health: Failed}}, expect: {phase: CreateFailed}}",
    ),
    "a group is tested": (
        "workers",
        """
        expect: {exist: ["0", "1"]}
        then: [{spec: {replicas: 3}, expect: {objects: {"2": {data: {number: "2"}}}, same: ["0"]}}]
        """,
    ),
    "an instance is tested": (
        "webapps",
        """
        metadata: {name: shop}
        parameters: {title: Hello, password: unspeakable-1}
        expect: {objects: {page: {data: {title: Hello, login: shop-login}}}, outputs: {page: shop-page}}
        then:
          - parameters: {title: Bye}
            expect: {phase: UpdateComplete, same: [page], objects: {page: {data: {title: Bye}}}}
        """,
    ),
    "defaults and options of instances count": (
        "webapps",
        """
        parameters: {title: Hello, password: unspeakable-1}
        spec: {timeout: 3m}
        fail: {resource: page}
        expect: {phase: CreateFailed}
        """,
    ),
    "a slow expression of a definition is evaluated": (
        "costly",
        '{expect: {objects: {page: {data: {pairs: "95"}}}}}',
    ),
    "a template in another object is found": ("user", "expect: {objects: {only: {data: {a: b}}}}"),
}


@pytest.mark.parametrize(("subject", "case"), PASSING.values(), ids=PASSING)
def test_a_test_passes(run: Callable[..., tuple[int, list[str]]], subject: str, case: str) -> None:
    fields = {"stack": "user"} if subject == "user" else {}

    assert run(subject, case, **fields) == (0, [])


FAILING = {
    "phase": (
        "expect: {phase: UpdateComplete}",
        "phase is CreateComplete, expected UpdateComplete: all 4 resources are ready",
    ),
    "ready by default": (
        "play: {web: {health: Failed, message: no image}}",
        "the Stack is not ready, expected ready: web (deployment/shop-web): no image",
    ),
    "ready although only objects are expected": (
        "{fail: {resource: page, code: 422, message: bad}, expect: {exist: [config, login, web]}}",
        "the Stack is not ready, expected ready: page: cannot apply page.example.org/shop-page: bad",
    ),
    "not ready": ("expect: {ready: false}", "the Stack is ready, expected not ready: all 4 resources are ready"),
    "reason": ("expect: {reason: Failed}", "reason is Complete, expected Failed: all 4 resources are ready"),
    "message": (
        "expect: {message: nothing}",
        "the message of Ready does not contain 'nothing': all 4 resources are ready",
    ),
    "field": (
        "expect: {objects: {web: {spec: {replicas: 2}}}}",
        "web: spec.replicas is 1, expected 2",
    ),
    "number instead of boolean": (
        "expect: {objects: {web: {spec: {replicas: true}}}}",
        "web: spec.replicas is 1, expected true",
    ),
    "list": (
        "expect: {objects: {web: {spec: {template: {spec: {containers: [{image: other}]}}}}}}",
        'web: spec.template.spec.containers[0].image is "web", expected "other"',
    ),
    "longer list": (
        "expect: {objects: {web: {spec: {template: {spec: {containers: []}}}}}}",
        'web: spec.template.spec.containers is [{"name": "web", "image": "web", "imagePullPolicy": "Always"}], expected []',
    ),
    "absent field": (
        "expect: {objects: {config: {data: {greting: hello}}}}",
        "config: data.greting is absent, expected \"hello\"; did you mean 'greeting'?",
    ),
    "field that must be absent": (
        "expect: {objects: {config: {data: {greeting: null}}}}",
        'config: data.greeting is "hello", expected none',
    ),
    "value that only a played status has": (
        "{parameters: {debug: true}, expect: {objects: {probe: {data: {page: up}}}}}",
        'probe: data.page is "(known after page is ready)", expected "up"',
    ),
    "object": ("expect: {absent: [web]}", "web has an object, expected none"),
    "missing object": ("expect: {objects: {probe: {}}}", "probe has no object"),
    "objects": (
        "expect: {exist: [config, probe, web, page]}",
        "exist: probe without an object",
    ),
    "unknown resource": (
        "{play: {wb: {health: Failed}}, expect: {ready: true}}",
        "play: the template has no resource wb; did you mean 'web'?",
    ),
    "order": ("expect: {order: [web, config]}", "order is config, web, expected web, config"),
    "order of a resource that is not written": (
        "expect: {order: [config, probe]}",
        "order: probe not applied in this step",
    ),
    "deletions": ("expect: {deleted: [web]}", "deleted is nothing, expected web"),
    "output": ("expect: {outputs: {url: http}}", 'output url is absent, expected "http"'),
    "accepted": ("expect: {rejected: [greeting]}", "the definition is accepted, expected a rejection with 'greeting'"),
    "rejected": (
        "{parameters: {greeting: 3}, expect: {exist: [web]}}",
        "the definition is rejected: spec.parameters.greeting: must be of type string, found the number 3; change it, or the rule in spec.template.parameters.greeting",
    ),
    "rejected for another reason": (
        "{parameters: {greeting: 3}, expect: {rejected: [too long]}}",
        "the definition is rejected, but not with 'too long': spec.parameters.greeting: must be of type string, found the number 3; change it, or the rule in spec.template.parameters.greeting",
    ),
    "no object before": ("expect: {same: [web]}", "web has no object before this step"),
    "a sensitive value is hidden": (
        "expect: {objects: {page: {spec: {password: x}}}}",
        'page: spec.password is "(sensitive)", expected "x"',
    ),
    "a sensitive value that the test states is hidden": (
        "expect: {message: unspeakable-1}",
        "the message of Ready does not contain '…': all 4 resources are ready",
    ),
    "the content of a Secret is hidden": (
        "expect: {objects: {login: {data: {plain: x}}}}",
        'login: data.plain is "(sensitive)", expected "x"',
    ),
    "the content of a Secret that is read is hidden": (
        """
        objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: gateway}, data: {host: in-unspeakable-2}},
                  {apiVersion: v1, kind: Secret, metadata: {name: any}, stringData: {key: unspeakable-2}}]
        expect: {objects: {config: {data: {host: x}}}}
        """,
        'config: data.host is "(sensitive)", expected "x"',
    ),
    "later step": (
        "{then: [{parameters: {greeting: bye}, expect: {replaced: [web]}}, {expect: {ready: false}}]}",
        "step 2: web has the same object as before this step",
    ),
}


@pytest.mark.parametrize(("case", "expected"), FAILING.values(), ids=FAILING)
def test_a_difference_is_reported(run: Callable[..., tuple[int, list[str]]], case: str, expected: str) -> None:
    code, differences = run("shop", case)

    assert (code, differences[0]) == (1, expected)
    assert "unspeakable" not in "".join(differences)


BROKEN = {
    "unknown field": (
        {"tests": [{"name": "a", "expct": {}}]},
        "tests[0].expct: is not a field; did you mean 'expect'?",
    ),
    "wrong word": (
        {"tests": [{"name": "a", "play": {"web": {"health": "Bad"}}}]},
        "tests[0].play.web.health: must be 'Ready', 'Progressing', 'Failed' or 'Rules', found the text 'Bad'",
    ),
    "no test": ({"tests": []}, "tests: "),
    "no name": ({"tests": [{}]}, "tests[0].name: is missing; set name"),
    "other kind": ({"kind": "Test", "tests": []}, "must have apiVersion hearth.dev/v1alpha1 and kind StackTest, found"),
    "wrong duration": ({"tests": [{"name": "a", "within": "soon"}]}, "tests[0].within: "),
    "no such file": (
        {"files": ["none.yaml"], "tests": [{"name": "a"}]},
        "shop.stacktest.yaml: cannot read none.yaml: No such file or directory; correct files",
    ),
    "no such Stack": (
        {"stack": "other", "tests": [{"name": "a"}]},
        "shop.stacktest.yaml: there must be one Stack named other in shop.yaml, found 0 (stack/shop); correct files or stack",
    ),
}


@pytest.mark.parametrize(("fields", "expected"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_no_test_is_explained(
    run: Callable[..., tuple[int, list[str]]], fields: dict[str, Any], expected: str
) -> None:
    code, errors = run("shop", "{}", **fields)

    assert code == 2
    assert expected in errors[0]


@pytest.fixture
def repository_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file next to it that a pipeline must not read."""
    (tmp_path / "secret.yaml").write_text("password: unspeakable-3\n" + STACK.replace("name: shop", "name: secret"))
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    "named", ["../secret.yaml", "{outside}/secret.yaml", "link.yaml", "folder/secret.yaml", "/dev/zero"]
)
def test_a_file_outside_of_the_repository_is_not_read(repository_folder: Path, named: str) -> None:
    (repository_folder / "link.yaml").symlink_to("../secret.yaml")
    (repository_folder / "folder").symlink_to("..")
    write_tests(
        repository_folder / "a.stacktest.yaml",
        {"name": "reads"},
        files=[named.format(outside=repository_folder.parent)],
    )

    done = invoke("a.stacktest.yaml")

    assert done.exit_code == 2
    assert "it is outside of the current folder" in done.output
    assert "unspeakable" not in done.output


def test_a_link_to_tests_outside_of_the_repository_is_not_read(repository_folder: Path) -> None:
    (repository_folder / "a.stacktest.yaml").symlink_to("../secret.yaml")

    for named in ("a.stacktest.yaml", "."):
        done = invoke(named)

        assert done.exit_code == 2
        assert "cannot read a.stacktest.yaml: it is outside of the current folder" in done.output


def test_files_of_the_repository_are_read_from_any_of_its_folders(repository_folder: Path) -> None:
    for folder in ("stacks", "tests"):
        (repository_folder / folder).mkdir()
    (repository_folder / "stacks" / "shop.yaml").write_text(STACK)
    (repository_folder / "tests" / "link.yaml").symlink_to("../stacks/shop.yaml")
    write_tests(repository_folder / "tests" / "a.stacktest.yaml", {"name": "a"}, files=["../stacks/shop.yaml"])
    write_tests(repository_folder / "tests" / "b.stacktest.yaml", {"name": "b"}, files=["link.yaml"])

    assert invoke("tests").exit_code == 0


def test_a_name_for_standard_input_is_that_of_a_file(repository_folder: Path) -> None:
    write_tests(repository_folder / "a.stacktest.yaml", {"name": "a"}, files=["-"])

    done = click.testing.CliRunner().invoke(stack_group.stack, ["test", "a.stacktest.yaml"], input=STACK)

    assert done.exit_code == 2
    assert "/-: No such file or directory; correct files" in done.output


HUGE = {
    "aliases": "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 10)}]\n" for at in range(1, 9)),
    "depth": f"tests: {'[' * 10_000}",
    "text": f"# {'x' * 3_000_000}",
}


@pytest.mark.parametrize("text", HUGE.values(), ids=HUGE)
def test_a_huge_file_is_refused(repository_folder: Path, text: str) -> None:
    (repository_folder / "a.stacktest.yaml").write_text(f"apiVersion: hearth.dev/v1alpha1\nkind: StackTest\n{text}")

    done = invoke("a.stacktest.yaml")

    assert done.exit_code == 2
    assert "error: a.stacktest.yaml is not valid YAML: " in done.output


def test_a_test_without_end_is_ended(repository_folder: Path) -> None:
    (repository_folder / "shop.yaml").write_text(STACK)
    within = "9" * 400 + "h"
    write_tests(
        repository_folder / "shop.stacktest.yaml",
        {"name": "a", "fail": {"code": 503}, "within": within, "spec": {"timeout": "900000h"}},
    )

    assert invoke(".").exit_code == 1


def test_the_examples_pass() -> None:
    done = invoke(str(repository.EXAMPLES))

    assert (done.exit_code, "FAIL" in done.output) == (0, False), done.output


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        pytest.param(b"a: [", "is not valid YAML", id="no YAML"),
        pytest.param("kind: StackTest".encode("utf-16"), "is not valid UTF-8", id="another encoding"),
        pytest.param(b"kind: Other\n", "StackTest", id="another kind"),
        pytest.param(
            b"{apiVersion: hearth.dev/v1alpha1, kind: StackTest, files: [none.yaml], tests: [{name: a}]}",
            "none.yaml",
            id="a missing file",
        ),
    ],
)
def test_an_unreadable_file_does_not_end_the_tests_of_others(tmp_path: Path, broken: bytes, message: str) -> None:
    (tmp_path / "shop.yaml").write_text(STACK)
    (tmp_path / "a.stacktest.yaml").write_bytes(broken)
    write_tests(tmp_path / "b.stacktest.yaml", {"name": "passes"}, files=["shop.yaml"])

    done = invoke(str(tmp_path), str(tmp_path / "none.stacktest.yaml"))

    assert done.exit_code == 2
    assert f"PASS  {tmp_path / 'b.stacktest.yaml'}: passes" in done.output
    assert message in done.output
    assert "none.stacktest.yaml: No such file" in done.output


def test_a_folder_without_tests_is_named(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(STACK)

    done = invoke(str(tmp_path))

    assert done.exit_code == 2
    assert f"there is no .stacktest.yaml file in folder {tmp_path}" in done.output


def test_junit_has_a_suite_per_file_and_the_differences(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(STACK)
    tests: list[dict[str, Any]] = [{"name": "passes"}, {"name": "fails", "expect": {"ready": False, "absent": ["web"]}}]
    write_tests(tmp_path / "shop.stacktest.yaml", *tests)

    done = invoke(str(tmp_path), "--junit", str(tmp_path / "results.xml"))

    assert done.exit_code == 1
    assert done.output.endswith("2 tests: 1 passed, 1 failed\n")
    (suite,) = ElementTree.parse(tmp_path / "results.xml").getroot()  # noqa: S314 -- our own report
    assert (suite.get("name"), suite.get("tests"), suite.get("failures")) == (
        str(tmp_path / "shop.stacktest.yaml"),
        "2",
        "1",
    )
    passed, failed = suite
    assert (passed.get("name"), len(passed), failed.get("name")) == ("passes", 0, "fails")
    (failure,) = failed
    assert failure.get("message") == "the Stack is ready, expected not ready: all 4 resources are ready"
    assert (failure.text or "").splitlines()[1] == "web has an object, expected none"


def test_results_are_printed_although_the_report_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(STACK)
    write_tests(tmp_path / "shop.stacktest.yaml", {"name": "passes"})

    done = invoke(str(tmp_path), "--junit", str(tmp_path / "none" / "results.xml"))

    assert done.exit_code == 2
    assert done.stdout.endswith("1 test: 1 passed, 0 failed\n")
    assert f"error: cannot write {tmp_path}/none/results.xml: No such file" in done.stderr


def test_only_chosen_tests_run(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text(STACK)
    tests: list[dict[str, Any]] = [{"name": "passes"}, {"name": "fails", "expect": {"ready": False}}]
    write_tests(tmp_path / "shop.stacktest.yaml", *tests)

    done, none = (invoke(str(tmp_path), "--only", text) for text in ("pass", "other"))

    assert (done.exit_code, done.output.splitlines()[-1]) == (0, "1 test: 1 passed, 0 failed")
    assert (none.exit_code, "no test has 'other' in its name" in none.output) == (2, True)


def test_a_report_contains_no_character_that_xml_forbids() -> None:
    result = CaseResult(source="a.stacktest.yaml", name="a\x1b[31m <b>", seconds=0.1, differences=("\x00 & ]]>",))

    (suite,) = ElementTree.fromstring(stack_test_report.write_junit([result]))  # noqa: S314 -- our own report

    assert suite[0].get("name") == "a\ufffd[31m <b>"
    assert suite[0][0].text == "\ufffd & ]]>"


def test_editors_know_the_format() -> None:
    tests = next(each for each in schema.list_own() if each.kind == "StackTest")
    validator = jsonschema.Draft7Validator(editor_schemas.write_one(tests))
    example = yaml.safe_load((repository.EXAMPLES / "guestbook.stacktest.yaml").read_text())

    assert list(validator.iter_errors(example)) == []
    example["tests"][0]["play"]["frontendService"]["helth"] = "Failed"
    assert [error.message for error in validator.iter_errors(example)] == [
        "Additional properties are not allowed ('helth' was unexpected)"
    ]
