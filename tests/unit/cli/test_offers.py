"""Every command that a message suggests is run by a test where it is printed; this module takes the inventory."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import hearth

ROOT = Path(hearth.__file__).parent
COMMANDS = re.compile(
    r"kubectl (?:stack [a-z]+|get|describe|logs|edit|patch|delete|create|annotate|apply|auth|api-resources|wait|scale|explain|label)"
    r"|hearth (?:run|crds|import|demo)|kubectl stack $"
)
SITUATIONS = "tests/integration/cli/test_why_situations.py"
"""Runs the commands that `kubectl stack why` prints in each of its situations."""
HELD = "tests/integration/cli/test_held_deletions.py"
VERBS = "tests/integration/cli/test_offers_of_verbs.py"
ROLLOUTS = "tests/integration/operator/test_stack_definitions.py"
NO_ADVICE = "names the program, and offers nothing"
PLANS = "tests/integration/threats/test_plan_approvals.py"
GATES = "tests/integration/threats/test_gate_approvals.py"
SETS = "tests/unit/plan/health/test_workload_rules.py"
"""Evaluates the statuses of StatefulSets: the simulated controller replaces every Pod."""
TRIED = {
    ("cli.stack_commands.steering.plan_commands", "kubectl stack plan"): PLANS,
    ("cli.stack_views.causes.stack_causes", "kubectl stack plan"): PLANS,
    ("cli.stack_views.plan_output", "kubectl stack retry"): PLANS,
    ("plan.status.plan_status", "kubectl stack approve"): PLANS,
    ("plan.status.plan_status", "kubectl stack reject"): PLANS,
    ("cli.stack_views.plan_output", "kubectl stack …"): PLANS,
    ("cli.page.shown_definition", "kubectl stack rollout"): GATES,
    ("engine.admission.gate_decisions", "kubectl stack rollout"): GATES,
    ("engine.admission.plan_decisions", "kubectl stack plan"): PLANS,
    ("engine.admission.plan_decisions", "kubectl stack retry"): PLANS,
    ("plan.health.workload_rules", "kubectl delete"): SETS,
    ("cli.stack_views.causes.advice", "kubectl api-resources"): SITUATIONS,
    ("cli.stack_views.causes.advice", "kubectl create"): SITUATIONS,
    ("cli.stack_views.causes.advice", "kubectl describe"): SITUATIONS,
    ("cli.stack_views.causes.advice", "kubectl edit"): SITUATIONS,
    ("cli.stack_views.causes.advice", "kubectl get"): SITUATIONS,
    ("cli.stack_views.causes.advice", "kubectl patch"): SITUATIONS,
    ("cli.stack_views.causes.advice", "kubectl stack rollback"): SITUATIONS,
    ("cli.stack_views.causes.advice", "kubectl stack why"): SITUATIONS,
    ("cli.stack_views.causes.advice", "kubectl stack unmark"): SITUATIONS,
    ("cli.stack_views.causes.object_causes", "kubectl delete"): HELD,
    ("cli.stack_views.causes.object_causes", "kubectl patch"): SITUATIONS,
    ("cli.stack_views.causes.object_causes", "kubectl stack why"): HELD,
    ("cli.stack_views.causes.stack_causes", "kubectl create"): SITUATIONS,
    ("cli.stack_views.causes.object_causes", "kubectl describe"): SITUATIONS,
    ("cli.stack_views.causes.object_causes", "kubectl logs"): SITUATIONS,
    ("cli.stack_views.causes.stack_causes", "kubectl get"): SITUATIONS,
    ("cli.stack_views.causes.stack_causes", "kubectl stack cleanup"): VERBS,
    ("cli.stack_views.causes.stack_causes", "kubectl stack continue"): SITUATIONS,
    ("cli.stack_views.causes.stack_causes", "kubectl stack history"): SITUATIONS,
    ("cli.stack_views.causes.stack_causes", "kubectl stack resume"): SITUATIONS,
    ("cli.stack_views.causes.stack_causes", "kubectl stack unpause"): SITUATIONS,
    ("plan.state.condition_types", "kubectl stack check"): SITUATIONS,
    ("plan.state.condition_types", "kubectl stack history"): SITUATIONS,
    ("cli.stack_views.steering.goals", "kubectl delete"): VERBS,
    ("cli.stack_views.steering.goals", "kubectl stack resume"): VERBS,
    ("cli.stack_views.steering.snapshot_requests", "kubectl wait"): VERBS,
    ("cli.stack_views.steering.verbs", "kubectl stack continue"): VERBS,
    ("cli.stack_views.steering.verbs", "kubectl stack mark"): VERBS,
    ("cli.stack_views.steering.verbs", "kubectl stack resume"): VERBS,
    ("cli.stack_views.steering.verbs", "kubectl stack unpause"): VERBS,
    ("model.tenancy", "kubectl create"): SITUATIONS,
    ("plan.ownership.adoption", "kubectl stack cleanup"): VERBS,
    ("plan.resource.decide", "kubectl stack retry"): VERBS,
    ("plan.resource.finished_run", "kubectl stack retry"): VERBS,
    ("plan.status.breakpoint_waits", "kubectl annotate"): VERBS,
    ("plan.status.plan_status", "kubectl stack retry"): VERBS,
    ("plan.status.breakpoint_waits", "kubectl stack continue"): VERBS,
    ("cli.stack_views.steering.verbs", "kubectl stack retry"): VERBS,
    ("engine.writes.undone_changes", "kubectl stack mark"): VERBS,
    ("cli.stack_views.causes.object_causes", "kubectl get"): SITUATIONS,
    ("cli.stack_views.steering.goals", "kubectl stack unpause"): VERBS,
    ("plan.resource.suspend_object", "kubectl annotate"): VERBS,
    ("plan.status.breakpoint_waits", "kubectl stack …"): VERBS,
    ("plan.target.rollback_notes", "kubectl stack …"): VERBS,
    ("cli.stack_views.steering.rollouts", "kubectl stack promote"): ROLLOUTS,
    ("cli.stack_views.steering.rollouts", "kubectl stack rollout"): ROLLOUTS,
    ("cli.stack_views.steering.rollouts", "kubectl stack why"): ROLLOUTS,
    ("cli.importer.heat.heat_template", "kubectl create"): "tests/integration/cli/test_heat_stacks.py",
    ("cli.stack_access.stack_reader", "kubectl stack tree"): "tests/integration/clusters/test_other_cluster.py",
    ("kube.objects.installed_crds", "hearth crds"): "tests/ecosystem/test_crd_upgrade.py",
    ("kube.objects.installed_crds", "kubectl apply"): "tests/ecosystem/test_crd_upgrade.py",
    ("cli.commands.crds", "hearth crds"): NO_ADVICE,
    ("cli.commands.import_", "hearth import"): NO_ADVICE,
    ("clusters_process", "hearth import"): "an import statement of Python",
    ("model.former_appliers", "kubectl apply"): NO_ADVICE,
    ("cli.commands.import_", "kubectl apply"): NO_ADVICE,
    ("cli.page.access_rules", "kubectl stack ui"): NO_ADVICE,
    ("cli.page.server", "kubectl stack ui"): NO_ADVICE,
    ("cli.main", "kubectl stack ui"): NO_ADVICE,
    ("cli.stack_commands.files.file_commands", "kubectl stack lint"): NO_ADVICE,
    ("cli.stack_commands.files.file_commands", "kubectl stack render"): NO_ADVICE,
    ("cli.stack_views.stack_tests.stack_test_report", "kubectl stack test"): NO_ADVICE,
    ("template.schema.literal_validator", "kubectl explain"): NO_ADVICE,
}
"""By module and command, the test that runs the printed command."""
UNTRIED = {
    ("cli.stack_views.causes.advice", "kubectl auth"),
    ("cli.commands.import_", "kubectl delete"),
    ("plan.target.rollback_notes", "kubectl stack history"),
}
"""Commands that no test runs yet. The list may only get shorter."""


def find_offers() -> Iterator[tuple[str, str]]:
    """Module and command of each string that names one: `cli.stack_views.causes.advice`, `kubectl edit`."""
    for file in sorted(ROOT.rglob("*.py")):
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts)
        tree = ast.parse(file.read_text())
        documentation = {id(each) for each in find_documentation(tree)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                for command in COMMANDS.findall(node.value):
                    yield module, f"{command}…" if command.endswith(" ") else command


def find_documentation(tree: ast.AST) -> Iterator[ast.AST]:
    """Strings that are statements, or the examples and the help of commands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node.value
        if isinstance(node, ast.keyword) and node.arg in ("examples", "help", "summary", "epilog"):
            yield from ast.walk(node.value)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "example_command":
            yield from ast.walk(node)


def test_each_offered_command_is_tried_where_it_is_printed() -> None:
    assert set(find_offers()) == set(TRIED) | UNTRIED
