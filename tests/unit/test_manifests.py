"""The manifests and the chart of the installation agree with the program and with each other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import build
import click
import click.testing
import image_debian
import jsonschema
import kopf
import pytest
import yaml

import hearth
from hearth.cli import main
from hearth.cli.demo import demo_cluster
from hearth.handlers import admission_handlers
from hearth.handlers.callbacks import AdmissionCallbacks
from hearth.kube.objects import installed_crds
from hearth.model import limits, names
from hearth.model.tenancy import Mode
from hearth.settings import Settings
from hearth.template.text import quantity
from support import repository
from support.ecosystem import chart_files, containerfile

FILES = sorted([*repository.MANIFESTS.glob("install/*.yaml"), *repository.MANIFESTS.glob("rbac/*.yaml")])


def load(kind: str) -> list[dict[str, Any]]:
    documents = [document for file in FILES for document in yaml.safe_load_all(file.read_text())]
    return [document for document in documents if document["kind"] == kind]


@pytest.fixture
def pod() -> dict[str, Any]:
    (deployment,) = load("Deployment")
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


def read_arguments(arguments: list[str]) -> Settings:
    """The arguments as the command line parses them."""
    seen: list[Settings] = []

    def run(settings: Settings) -> int:
        seen.append(settings)
        return 0

    result = click.testing.CliRunner().invoke(main.main, arguments, obj=main.Programs(run=run))
    assert result.exit_code == 0, result.output
    return seen[0]


def test_the_arguments_of_the_container_are_understood(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    settings = read_arguments(container["args"])

    assert str(settings.http_address) == f"0.0.0.0:{container['ports'][0]['containerPort']}"
    assert settings.log_format == "json"


def test_there_are_as_many_pods_as_shards() -> None:
    (patch,) = yaml.safe_load((repository.MANIFESTS / "shards" / "kustomization.yaml").read_text())["patches"]
    by_path = {step["path"]: step["value"] for step in yaml.safe_load(patch["patch"])}

    assert by_path["/spec/template/spec/containers/0/args/-"] == f"--shards={by_path['/spec/replicas']}"


def test_the_probes_ask_for_paths_that_are_served(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]

    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_there_is_time_to_end_in_order(pod: dict[str, Any]) -> None:
    assert pod["terminationGracePeriodSeconds"] > 5


def test_no_rule_grants_more_than_it_names() -> None:
    granted = [
        (role["metadata"]["name"], word)
        for role in load("ClusterRole") + load("Role")
        for rule in role.get("rules", ())
        for word in (*rule["apiGroups"], *rule["resources"], *rule["verbs"])
    ]

    assert [(name, word) for name, word in granted if "*" in word or word in ("escalate", "bind")] == []


def test_no_object_can_be_replaced_as_a_whole() -> None:
    replaceable = {
        resource
        for role in load("ClusterRole") + load("Role")
        if role["metadata"]["name"].startswith(("hearth-operator", "hearth-children"))
        for rule in role.get("rules", ())
        if "update" in rule["verbs"]
        for resource in rule["resources"]
    }

    assert replaceable == {"stacks/finalizers", "resourcegroups/finalizers"}


def test_only_service_accounts_can_be_impersonated() -> None:
    rules = [rule for role in load("ClusterRole") + load("Role") for rule in role.get("rules", ())]
    impersonating = [rule for rule in rules if "impersonate" in rule["verbs"]]

    assert impersonating == [{"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["impersonate"]}]


def test_every_binding_binds_a_role_that_is_there() -> None:
    roles = {(role["kind"], role["metadata"]["name"]) for role in load("ClusterRole") + load("Role")}
    (account,) = load("ServiceAccount")
    subject = {key: account["metadata"][key] for key in ("name", "namespace")} | {"kind": "ServiceAccount"}

    bindings = load("ClusterRoleBinding") + load("RoleBinding")
    assert bindings
    for binding in bindings:
        assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) in roles
        assert binding["subjects"] == [subject]


def test_writing_stacks_is_granted_by_hand_alone() -> None:
    aggregated = [
        role["metadata"]["name"]
        for role in load("ClusterRole")
        if any("rbac.authorization.k8s.io/aggregate-to-" in label for label in role["metadata"]["labels"])
    ]

    assert aggregated == ["hearth-stacks-view"]


def test_the_policy_adds_the_operators_own_finalizer_and_only_at_creation() -> None:
    policy, binding = (
        yaml.safe_load((repository.MANIFESTS / "finalizer" / f"{name}.yaml").read_text())
        for name in ("policy", "binding")
    )
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    (mutation,) = policy["spec"]["mutations"]

    assert (rule["apiGroups"], rule["resources"], rule["operations"]) == (
        [names.GROUP],
        ["stacks", "resourcegroups"],
        ["CREATE"],
    )
    assert mutation["jsonPatch"]["expression"].count(f'"{names.FINALIZER}"') == 2
    assert f"'{names.FINALIZER}'" in policy["spec"]["matchConditions"][0]["expression"]
    assert policy["spec"]["failurePolicy"] == "Ignore"
    assert binding["spec"]["policyName"] == policy["metadata"]["name"]


@pytest.mark.parametrize(
    "file",
    [
        "manifests/install/kustomization.yaml",
        "manifests/rbac/kustomization.yaml",
        "manifests/finalizer/kustomization.yaml",
        "manifests/observability/kustomization.yaml",
        "manifests/page/kustomization.yaml",
        "crds/Kustomization",
    ],
)
def test_every_file_is_part_of_its_kustomization(file: str) -> None:
    path = (repository.ROOT / file).parent
    listed = yaml.safe_load((repository.ROOT / file).read_text())["resources"]

    files = {file.name for file in path.glob("*.yaml")} - {"kustomization.yaml"}
    assert files == {name for name in listed if name.endswith(".yaml")}
    assert all((path / name).exists() for name in listed)


def test_kubectl_can_apply_the_folder_of_the_crds() -> None:
    read = [file for file in (repository.ROOT / "crds").iterdir() if file.suffix in {".yaml", ".yml", ".json"}]

    assert {yaml.safe_load(file.read_text())["kind"] for file in read} == {"CustomResourceDefinition"}


def test_only_monitoring_reaches_the_http_port(pod: dict[str, Any]) -> None:
    (policy,) = load("NetworkPolicy")
    (deployment,) = load("Deployment")
    spec = policy["spec"]
    (container,) = pod["containers"]

    assert policy["metadata"]["namespace"] == deployment["metadata"]["namespace"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert spec["podSelector"]["matchLabels"].items() <= labels.items()
    assert spec["policyTypes"] == ["Ingress"]
    rule, webhook = spec["ingress"]
    http, reviews = (port["name"] for port in container["ports"])
    assert [port["port"] for port in rule["ports"]] == [http]
    # The API server's address differs between clusters.
    assert webhook == {"ports": [{"protocol": "TCP", "port": reviews}]}
    assert all(set(peer) == {"namespaceSelector"} for peer in rule["from"])


def test_the_webhook_is_that_of_the_program(pod: dict[str, Any]) -> None:
    configurations = load("ValidatingWebhookConfiguration") + load("MutatingWebhookConfiguration")
    webhooks = [webhook for each in configurations for webhook in each["webhooks"]]
    (service,) = load("Service")

    assert {each["metadata"]["name"] for each in configurations} == {Settings().webhook_configuration}
    policies = {each["name"]: each["failurePolicy"] for each in webhooks}
    strict = {"approvals.hearth.dev", "authors.hearth.dev", "gates.hearth.dev"}
    assert policies == {name: "Fail" if name in strict else "Ignore" for name in policies}
    assert max(each["timeoutSeconds"] for each in webhooks) > limits.ADMISSION_SECONDS
    assert all(each["clientConfig"]["service"]["name"] == service["metadata"]["name"] for each in webhooks)
    assert service["spec"]["ports"][0]["targetPort"] in [port["name"] for port in pod["containers"][0]["ports"]]
    registry = kopf.OperatorRegistry()
    callbacks = AdmissionCallbacks(server=None, review=None, decide=None, stamp_authors=None)  # type: ignore[arg-type]  # none is called
    admission_handlers.register(callbacks, registry)
    # One webhook may be for several kinds.
    assert sorted(each["name"] for each in webhooks) == sorted(
        {each.id for each in registry._webhooks.get_all_handlers()}
    )


def test_the_aggregated_role_states_no_rules() -> None:
    (role,) = [role for role in load("ClusterRole") if "aggregationRule" in role]

    assert "rules" not in role


def test_the_demonstration_reviews_what_the_installation_reviews() -> None:
    (validating,) = load("ValidatingWebhookConfiguration")
    (mutating,) = load("MutatingWebhookConfiguration")
    for installed in (validating, mutating):
        made = demo_cluster.make_configuration(installed["kind"], name="demo", port=1, namespace=None)

        assert [forget_place(each) for each in made["webhooks"]] == [
            forget_place(each) for each in installed["webhooks"]
        ]


def forget_place(webhook: dict[str, Any]) -> dict[str, Any]:
    """The webhook without its service and namespace selector."""
    return {key: value for key, value in webhook.items() if key not in ("clientConfig", "namespaceSelector")}


def find_strict_patches() -> dict[str, list[dict[str, Any]]]:
    """Each patch of the strict installation, by the name of its object."""
    patches = yaml.safe_load((repository.MANIFESTS / "strict" / "kustomization.yaml").read_text())["patches"]
    return {f"{each['target']['kind']}/{each['target']['name']}": yaml.safe_load(each["patch"]) for each in patches}


def test_the_strict_installation_takes_the_right_to_secrets_away() -> None:
    (role,) = [each for each in load("ClusterRole") if each["metadata"]["name"] == "hearth-operator"]
    expected, resources, verbs = find_strict_patches()["ClusterRole/hearth-operator"]
    rule = role["rules"][int(expected["path"].split("/")[2])]

    assert {each["path"].rpartition("/")[0] for each in (expected, resources, verbs)} == {
        expected["path"].rpartition("/")[0]
    }
    assert rule["resources"] == expected["value"] == ["configmaps", "secrets"]
    assert (resources["value"], verbs["value"]) == (["configmaps"], ["list", "watch"])
    others = [each for each in role["rules"] if each is not rule]
    assert [each for each in others if "secrets" in each["resources"]] == []


def test_the_strict_installation_watches_what_the_usual_one_writes() -> None:
    (role,) = [each for each in load("ClusterRole") if each["metadata"]["name"] == "hearth-children-workloads"]
    (patch,) = find_strict_patches()["ClusterRole/hearth-children-workloads"]

    def list_kinds(rules: list[dict[str, Any]]) -> set[tuple[str, str]]:
        return {(group, each) for rule in rules for group in rule["apiGroups"] for each in rule["resources"]}

    assert list_kinds(patch["value"]) == list_kinds(role["rules"]) - {("", "secrets"), ("", "pods/log")}
    assert {verb for rule in patch["value"] for verb in rule["verbs"]} == {"list", "watch"}


def test_the_strict_installation_has_the_flags_for_its_rights() -> None:
    (container,) = load("Deployment")[0]["spec"]["template"]["spec"]["containers"]
    more = [step["value"] for step in find_strict_patches()["Deployment/hearth"]]
    settings = read_arguments([*container["args"], *more])

    assert (settings.tenancy, settings.namespaced_watches) == (Mode.STRICT, frozenset({"Secret"}))


def test_the_containerfile_states_what_the_image_has() -> None:
    assert containerfile.read_settings(repository.MANIFESTS / "image" / "Containerfile") == build.SETTINGS


def test_the_containerfile_copies_all_that_the_builder_reads(tmp_path: Path) -> None:
    copied = containerfile.list_copied(repository.MANIFESTS / "image" / "Containerfile")
    for name in copied:
        source, target = repository.ROOT / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if source.is_dir() else shutil.copyfile)(source, target)

    assert "requirements.lock" in copied
    program = "import sys, image_wheels, pathlib; image_wheels.build_own(pathlib.Path(sys.argv[1]))"
    search = f"{tmp_path}/operator:{tmp_path}/manifests/image"
    command = [sys.executable, "-c", program, str(tmp_path)]
    subprocess.run(command, check=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": search})
    assert [path.name for path in tmp_path.glob("*.whl")] == [f"hearth-{hearth.__version__}-py3-none-any.whl"]


def test_debian_packages_come_from_the_archive_that_is_named(tmp_path: Path) -> None:
    image_debian.write_configuration("amd64", tmp_path, "http://snapshot.example/{}/20260101")
    of_a_snapshot = (tmp_path / "sources.list").read_text()
    image_debian.write_configuration("amd64", tmp_path, image_debian.ARCHIVE)
    of_debian = (tmp_path / "sources.list").read_text()

    assert "check-valid-until=no] http://snapshot.example/debian/20260101 bookworm main" in of_a_snapshot
    assert "http://snapshot.example/debian-security/20260101 bookworm-security main" in of_a_snapshot
    assert "deb.debian.org" not in of_a_snapshot
    assert "check-valid-until" not in of_debian


# The page for a team has no permissions.


PAGE = repository.MANIFESTS / "page"


def test_the_page_has_no_token_and_no_rights() -> None:
    objects = [yaml.safe_load(path.read_text()) for path in PAGE.glob("*.yaml")]
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]

    assert {each["kind"] for each in objects} == {"Deployment", "Service", "NetworkPolicy", "Kustomization"}
    assert pod["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in pod
    assert {key for volume in pod["volumes"] for key in volume} == {"name", "configMap", "secret"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (pod["securityContext"]["runAsNonRoot"], "env" in container) == (True, False)


def test_a_flood_of_connections_fits_in_the_memory_of_the_page() -> None:
    deployment = yaml.safe_load((PAGE / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    memory = quantity.parse(container["resources"]["limits"]["memory"])

    # 430 KiB for each connection; the other half is for signed-in users.
    assert memory / 2 > limits.PAGE_CONNECTIONS * 430 * 1024
    assert VALUES["page"]["resources"] == container["resources"]


def test_the_arguments_of_the_page_are_understood() -> None:
    deployment = yaml.safe_load((PAGE / "deployment.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    name, *arguments = container["args"]
    command = main.main.get_command(click.Context(main.main), name)

    assert command is not None
    stated = command.make_context(name, list(arguments)).params
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert {"page": stated["address"].port, "http": stated["http_address"].port} == ports
    assert stated["session_duration"].total_seconds() > 0
    mounted = {each["mountPath"] for each in container["volumeMounts"]}
    files = (stated[key] for key in ("certificate_authority", "tls_certificate", "tls_key", "key_file"))
    assert {str(file.parent) for file in files} == mounted


def test_the_pods_of_the_page_are_not_those_of_the_operator() -> None:
    operator = yaml.safe_load((repository.MANIFESTS / "install" / "deployment.yaml").read_text())
    page = yaml.safe_load((PAGE / "deployment.yaml").read_text())
    service, policy = (yaml.safe_load((PAGE / f"{name}.yaml").read_text()) for name in ("service", "networkpolicy"))
    labels = page["spec"]["template"]["metadata"]["labels"]

    assert not operator["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert labels == service["spec"]["selector"] == policy["spec"]["podSelector"]["matchLabels"]


# The chart agrees with the program and with the files that it shares. tests/ecosystem tests its rendering by Helm.


CHART = chart_files.CHART
VALUES = chart_files.read_values()
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


def test_the_files_that_the_chart_shares_are_up_to_date() -> None:
    wanted = chart_files.make_all()
    stale = [str(path) for path, text in wanted.items() if not path.exists() or path.read_text() != text]

    assert stale == [], "run `make chart`"
    assert set(CHART.glob("files/*/*")) <= set(wanted), "run `make chart`"


def test_the_default_values_match_their_schema() -> None:
    jsonschema.validate(VALUES, SCHEMA)

    with pytest.raises(jsonschema.ValidationError, match="'replica' was unexpected"):
        jsonschema.validate({**VALUES, "replica": 3}, SCHEMA)
    with pytest.raises(jsonschema.ValidationError, match="is not one of"):
        jsonschema.validate({**VALUES, "settings": {"tenancy": "lax"}}, SCHEMA)


def test_every_value_is_documented_and_has_a_type() -> None:
    for path, schema, value in walk(SCHEMA, VALUES):
        assert schema.get("description"), path
        assert "type" in schema or "enum" in schema, path
        if "properties" in schema:
            assert schema["additionalProperties"] is False, path
            assert list(value) == list(schema["properties"]), path


def test_every_flag_is_a_value() -> None:
    assert list(VALUES["settings"]) == [chart_files.find_key(each) for each in chart_files.find_flags()]


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (hearth.__version__, hearth.__version__)


def test_chart_program_and_documentation_support_the_same_kubernetes() -> None:
    oldest = ".".join(map(str, installed_crds.OLDEST_SERVER))

    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"] == f">={oldest}.0-0"
    for page in ("support.md", "installation.md"):
        assert f"Hearth needs Kubernetes {oldest} or newer" in (repository.DOCS / page).read_text(), page


def walk(schema: dict[str, Any], value: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Path, schema and default of every value, and of every group of values."""
    yield path, schema, value
    for name, each in schema.get("properties", {}).items():
        yield from walk(each, value[name], f"{path}.{name}")
