"""`hearth demo`: the cases it refuses before it changes anything, and the commands it recommends. Everything else is
tested on a real API server.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click.testing
import pytest
import yaml

from hearth.cli import main
from hearth.cli.commands import demo
from hearth.cli.demo import demo_cluster, demo_run
from hearth.cli.stack_views.tree.stack_view import ResourceRow, RowState, StackView
from support import repository

STACK = "apiVersion: hearth.dev/v1alpha1\nkind: Stack\nmetadata: {name: shop}\nspec: {}\n"
OTHER = "apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"


def run(folder: Path, content: str | None) -> click.testing.Result:
    file = folder / "example.yaml"
    if content is not None:
        file.write_text(content)
    arguments = ["demo", "--kubeconfig", str(folder / "none"), "--example", str(file)]
    return click.testing.CliRunner().invoke(main.main, arguments)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "No such file or directory", id="no file"),
        pytest.param("a: [", "is not valid YAML: line 2, column 1", id="no YAML"),
        pytest.param(OTHER, "must contain exactly one Stack, found 0", id="no Stack"),
        pytest.param(f"{STACK}---\n{STACK}", "must contain exactly one Stack, found 2", id="two Stacks"),
        pytest.param("kind: Stack\n", "must contain exactly one Stack, found 0", id="another client's kind"),
        pytest.param(STACK.replace("shop", "{}"), "metadata.name must be text, found a map", id="a name that is a map"),
        pytest.param(STACK, "no kubeconfig at", id="no cluster"),
    ],
)
def test_what_cannot_be_shown_is_refused_in_one_sentence(tmp_path: Path, content: str | None, message: str) -> None:
    result = run(tmp_path, content)

    assert result.exit_code == 1
    assert message in result.output
    assert "Traceback" not in result.output


def test_the_stack_goes_where_it_says(tmp_path: Path) -> None:
    plain, placed = tmp_path / "plain.yaml", tmp_path / "placed.yaml"
    plain.write_text(f"{OTHER}---\n{STACK}")
    placed.write_text(STACK.replace("{name: shop}", "{name: shop, namespace: prod}"))

    assert demo.read_stack(str(plain), namespace="test")["metadata"] == {"name": "shop", "namespace": "test"}
    assert demo.read_stack(str(placed), namespace="test")["metadata"] == {"name": "shop", "namespace": "prod"}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, False, id="new"),
        pytest.param({"conditions": [{"type": "Established", "status": "False"}]}, False, id="not yet"),
        pytest.param({"conditions": [{"type": "NamesAccepted", "status": "True"}]}, False, id="half"),
        pytest.param({"conditions": [{"type": "Established", "status": "True"}]}, True, id="served"),
    ],
)
def test_a_definition_is_established_when_it_says_so(status: dict[str, object], *, expected: bool) -> None:
    assert demo_cluster.is_established({"status": status}) is expected


# ---------------------------------------------------------------- recommended commands

EXAMPLE = repository.EXAMPLES / "guestbook.yaml"


def make_stack(parameters: Any = None, **given: Any) -> dict[str, Any]:
    return {"spec": {"template": {"parameters": parameters, "resources": {}}, "parameters": given}}


def make_view(*objects: str) -> StackView:
    rows = tuple(ResourceRow(resource="x", object=name, state=RowState.READY) for name in objects)
    return StackView(name="shop", namespace="prod", rows=rows)


def find_tries(stack: dict[str, Any], view: StackView) -> dict[str, str]:
    return dict(demo_run.find_tries(stack, view, "kubectl"))


def test_the_example_gives_every_suggestion() -> None:
    stack = yaml.safe_load(EXAMPLE.read_text())

    lines = demo_run.advise(
        stack, make_view("configmap/a", "deployment/web", "service/web"), kubeconfig="/k", programs=[]
    )

    assert lines[2] == "  export KUBECONFIG=/k"
    kubectl = "kubectl -n prod"
    assert [line.split("   ")[-1].strip() for line in lines[4:]] == [
        "kubectl stack -n prod tree shop -w",
        "kubectl stack -n prod ui",
        f"""{kubectl} patch stack shop --type=merge -p '{{"spec":{{"parameters":{{"frontendReplicas":5}}}}}}'""",
        f"{kubectl} delete deployment/web",
        f"{kubectl} set image deployment/web '*=example.com/other'",
        f"""{kubectl} patch stack shop --type=merge -p '{{"spec":{{"parameters":{{"frontendReplicas":"many"}}}}}}'""",
        "kubectl stack -n prod why shop",
        f"{kubectl} delete stack shop",
    ]


def test_an_example_with_nothing_to_change_gives_what_it_can() -> None:
    assert find_tries(make_stack(), make_view("configmap/a", "secret")) == {
        "see its resources, live": "kubectl stack tree shop -w",
        "see the same in a browser": "kubectl stack ui",
        "delete a child: Hearth recreates it": "kubectl delete configmap/a",
        "ask why a Stack is not ready": "kubectl stack why shop",
        "delete the stack": "kubectl delete stack shop",
    }


@pytest.mark.parametrize(
    ("rules", "given", "expected"),
    [
        pytest.param({"type": "integer", "default": 2}, {}, ("size", 4), id="the default counts"),
        pytest.param({"type": "integer", "default": 2}, {"size": 7}, ("size", 9), id="what is given counts more"),
        pytest.param({"type": "integer", "default": 2, "maximum": 3}, {}, ("size", 3), id="not above the maximum"),
        pytest.param({"type": "integer", "default": 3, "maximum": 3}, {}, ("size", 2), id="down from the maximum"),
        pytest.param({"type": "integer", "default": 3, "maximum": 3, "minimum": 3}, {}, None, id="no other value"),
        pytest.param({"type": "string", "default": "a"}, {}, None, id="no number"),
        pytest.param({"type": "integer"}, {}, None, id="no value to begin with"),
    ],
)
def test_a_parameter_gets_a_value_that_it_may_have(
    rules: dict[str, Any], given: dict[str, Any], expected: tuple[str, int] | None
) -> None:
    assert demo_run.find_number(make_stack({"size": rules}, **given)) == expected


@pytest.mark.parametrize("type_", demo_run.WRONG)
def test_a_bad_parameter_is_of_another_type(type_: str) -> None:
    named: dict[str, type | tuple[type, ...]] = {
        "string": str,
        "integer": int,
        "number": (int, float),
        "boolean": bool,
        "array": list,
        "object": dict,
    }
    found = demo_run.find_wrong(make_stack({"size": {"type": type_}}))

    assert found is not None
    assert not isinstance(found[1], named[type_])


def test_names_are_quoted_for_the_shell() -> None:
    assert demo_run.prepare("/a b/k", ["/c d/kubectl"]) == "export KUBECONFIG='/a b/k' PATH='/c d':$PATH"


def test_each_folder_of_missing_programs_is_put_on_the_path_once() -> None:
    programs = ["/bin/kubectl", "/venv/kubectl-stack", "/venv/other"]

    assert demo_run.prepare("/k", programs) == "export KUBECONFIG=/k PATH=/bin:/venv:$PATH"
