"""The chart as Helm reads it: no cluster is needed."""

from __future__ import annotations

import copy
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import binaries
import click.testing
import go_programs
import pytest
import yaml

from hearth.cli import main
from hearth.model.tenancy import Mode
from hearth.settings import Settings
from support import repository
from support.ecosystem import chart_files
from support.ecosystem import helm as helm_program
from support.ecosystem.helm import CHART, Helm

VARIANTS = {
    "install": (),
    "strict": ("--set=settings.tenancy=strict",),
    "shards": ("--set=settings.shards=4", "--set=replicas=1"),
    "definitions": ("--set=settings.definitionGroups=platform.example",),
}
"""The kustomizations, and the values that make the same installation."""
EXAMPLES: dict[str, Any] = {
    "kubeconfig": "/etc/hearth/kubeconfig",
    "context": "other",
    "namespace": "shop",
    "namespacedWatches": "Secret",
    "operatorNamespace": "platform",
    "serveOperatorNamespace": True,
    "tenancy": "trusted",
    "definitionGroups": "platform.example",
    "definitionAccounts": "platform:webapps",
    "defaultServiceAccount": "deployer",
    "otherClusters": False,
    "clustersMemory": 300,
    "allowLoopbackClusters": True,
    "httpAddress": ":8181",
    "webhookAddress": ":9444",
    "webhookSecret": "certificates",
    "webhookConfiguration": "reviews",
    "checkAuthors": False,
    "logFormat": "json",
    "logLevel": "debug",
    "maxConcurrentWrites": 7,
    "maxBackoff": "90s",
    "leaderElection": False,
    "ignoreLeader": True,
    "leaseName": "leader",
    "leaseDuration": "30s",
    "renewDeadline": "20s",
    "retryPeriod": "5s",
    "shards": 3,
    "shard": 2,
    "notificationDir": "{folder}",
    "notificationFormat": "slack",
    "notificationSource": "/production",
    "profile": "{folder}/profile",
}
"""A non-default value for each flag."""
ALONE = ("definitionGroups", "definitionAccounts")
"""Settings that cannot be combined with shards."""
Object: TypeAlias = dict[str, Any]
ADDED = frozenset(
    {
        *("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart"),
        *("hearth.dev/set", "helm.sh/resource-policy"),
    }
)
"""Labels and annotations of charts."""


def render_kustomization(variant: str) -> list[Object]:
    """The objects of one of them."""
    command = [str(binaries.ensure() / "kubectl"), "kustomize", str(repository.MANIFESTS / variant)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return list(yaml.load_all(text, Loader=yaml.CSafeLoader))


def index_objects(objects: Iterable[Object]) -> dict[str, Object]:
    """The objects by kind and name, without additions of the chart, which contains no namespace."""
    return {
        f"{each['kind']}/{each['metadata']['name']}": simplify(each) for each in objects if each["kind"] != "Namespace"
    }


def simplify(given: Object) -> Object:
    """A copy without the labels of charts, without the image, and with the arguments in order."""
    simple: Object = strip(copy.deepcopy(given))
    for container in simple.get("spec", {}).get("template", {}).get("spec", {}).get("containers", ()):
        container["args"] = [container["args"][0], *sorted(container["args"][1:])]
        for name in ("image", "imagePullPolicy"):
            container.pop(name, None)
    return simple


def strip(value: Any) -> Any:
    """The value without additions of charts, and without empty annotations and labels."""
    if isinstance(value, list):
        return [strip(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: strip(each) for name, each in value.items() if name not in ADDED}
    return {name: each for name, each in kept.items() if each or name not in ("annotations", "labels")}


def test_helm_is_the_version_that_is_pinned(helm: Helm) -> None:
    pinned = go_programs.read_pin(helm_program.MODULE, "helm.sh/helm/v4")

    assert pinned in helm.call("version", "--template={{.Version}}")


def test_helm_finds_nothing_to_complain_about(helm: Helm) -> None:
    assert "[WARNING]" not in helm.call("lint", "--strict", str(CHART))


@pytest.mark.parametrize("variant", VARIANTS)
def test_chart_and_kustomization_are_the_same_installation(helm: Helm, variant: str) -> None:
    rendered = index_objects(helm.render(*VARIANTS[variant]))

    assert rendered == index_objects(render_kustomization(variant))


PAGE_VALUES = (
    "--set=page.enabled=true",
    "--set=page.urls={https://hearth.example.com}",
    "--set=page.replicas=2",
    "--set=page.tlsSecret=hearth-page-tls",
    "--set=page.keySecret=hearth-page-key",
)


def test_the_page_of_the_chart_is_that_of_the_kustomization(helm: Helm) -> None:
    without, with_page = (index_objects(helm.render(*values)) for values in ((), PAGE_VALUES))
    rendered = {name: each for name, each in with_page.items() if name not in without}
    wanted = index_objects(render_kustomization("page"))
    for deployment in (rendered["Deployment/hearth-page"], wanted["Deployment/hearth-page"]):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        container["args"] = [each for each in container["args"] if each != "--session-duration=8h"]

    assert rendered == wanted
    assert {name: with_page[name] for name in without} == without


def test_an_ingress_leads_to_a_page_without_tls(helm: Helm) -> None:
    values = ("--set=page.enabled=true", "--set=page.urls={https://hearth.example.com}", "--set=page.plainHttp=true")
    more = ("--set=page.ingress.enabled=true", "--set=page.readOnly=true", "--set=page.signOutPath=/oauth2/sign_out")
    objects = index_objects(helm.render(*values, *more))
    pod = objects["Deployment/hearth-page"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (rule,) = objects["Ingress/hearth-page"]["spec"]["rules"]

    assert [each["name"] for each in pod["volumes"]] == ["cluster"]
    assert {"--plain-http", "--read-only", "--sign-out-path=/oauth2/sign_out"} < set(container["args"])
    assert rule["host"] == "hearth.example.com"
    assert rule["http"]["paths"][0]["backend"]["service"] == {"name": "hearth-page", "port": {"name": "page"}}
    assert objects["Service/hearth-page"]["spec"]["ports"] == [{"name": "page", "port": 80, "targetPort": "page"}]


def test_every_flag_reaches_the_program(helm: Helm, tmp_path: Path) -> None:
    seen, alone = (
        read_settings(find_args(helm.render(f"--set-json=settings={text}", "--set=replicas=1")))
        for text in (
            json.dumps({name: None if name in ALONE else each for name, each in EXAMPLES.items()}).replace(
                "{folder}", str(tmp_path)
            ),
            json.dumps({name: EXAMPLES[name] for name in ALONE}),
        )
    )
    defaults = read_settings(["run"])

    assert list(EXAMPLES) == list(chart_files.read_values()["settings"])
    # The shard is a part of `share`.
    same = {name for name in seen.__dataclass_fields__ if getattr(seen, name) == getattr(defaults, name)}
    assert same == {"leader_election", "definition_groups", "definition_accounts"}, (
        "a process outside of a pod has none by default"
    )
    assert (alone.definition_groups, alone.definition_accounts) == (
        frozenset({"platform.example"}),
        frozenset({"platform:webapps"}),
    )
    assert (seen.tenancy, seen.share.index, seen.max_concurrent_writes) == (Mode.TRUSTED, 2, 7)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param(["replica=3"], "replica", id="an unknown value"),
        pytest.param(["settings.tenancy=lax"], "tenancy", id="a mode that is none"),
        pytest.param(["replicas=0"], "replicas", id="no pod at all"),
        pytest.param(["settings.leaderElection=false"], "all of them would write", id="two without an election"),
        pytest.param(["settings.namespace=hearth-system"], "install into another", id="its own namespace"),
        pytest.param(["settings.tenancy=strict", "rbac.impersonate=false"], "rbac.impersonate", id="no account works"),
        pytest.param(["page.enabled=true", "page.tlsSecret=tls"], "page.urls", id="a page without a URL"),
        pytest.param(
            ["page.enabled=true", "page.urls={https://a.example}"], "page.tlsSecret", id="a page without a certificate"
        ),
        pytest.param(
            ["page.enabled=true", "page.urls={https://a.example}", "page.plainHttp=true", "page.replicas=2"],
            "page.keySecret",
            id="two pages without a shared key",
        ),
    ],
)
def test_values_that_cannot_work_are_refused(helm: Helm, values: list[str], message: str) -> None:
    given = [f"--set={each}" for each in values]
    done = helm.run("template", "hearth", str(CHART), "--namespace=hearth-system", *given)

    assert done.returncode != 0
    assert message in done.stderr


def test_two_operators_share_no_object_of_the_cluster(helm: Helm) -> None:
    first, second = (
        index_objects(
            helm.render(f"--set=settings.namespace={each}", *more, name=f"hearth-{each}", namespace=each + "-op")
        )
        for each, more in (("a", ()), ("b", ("--set=crds.install=false", "--set=rbac.userRoles=false")))
    )

    assert set(first) & set(second) == set()
    args = find_args(list(second.values()))
    assert {"--namespace=b", "--webhook-configuration=hearth-b-webhook", "--webhook-secret=hearth-b-webhook"} < set(
        args
    )
    binding = second["RoleBinding/hearth-b-children"]
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == ("b", "hearth-b-children")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "hearth-b", "namespace": "b-op"}]
    webhooks = second["ValidatingWebhookConfiguration/hearth-b-webhook"]["webhooks"]
    assert {str(each["namespaceSelector"]) for each in webhooks} == {
        "{'matchLabels': {'kubernetes.io/metadata.name': 'b'}}"
    }


def test_each_shard_has_as_many_pods_as_replicas_says(helm: Helm) -> None:
    sets = [each for each in helm.render("--set=settings.shards=3") if each["kind"] == "StatefulSet"]

    assert [(each["metadata"]["name"], each["spec"]["replicas"]) for each in sets] == [
        ("hearth", 3),
        ("hearth-standby-1", 3),
    ]
    assert len({str(each["spec"]["selector"]) for each in sets}) == 2
    for each in sets:
        selected = each["spec"]["selector"]["matchLabels"].items()
        assert selected <= each["spec"]["template"]["metadata"]["labels"].items()


def test_the_secret_of_the_receiver_of_notifications_is_mounted(helm: Helm) -> None:
    without, objects = (helm.render(*values) for values in ((), ("--set=notifications.secretName=hooks",)))
    (pod,) = (each["spec"]["template"]["spec"] for each in objects if each["kind"] == "Deployment")
    (volume,) = (each for each in pod["volumes"] if each["name"] == "notifications")
    (mount,) = (each for each in pod["containers"][0]["volumeMounts"] if each["name"] == "notifications")

    assert volume["secret"]["secretName"] == "hooks"
    assert mount["readOnly"] is True
    assert read_settings(find_args(objects)).notification_dir == mount["mountPath"]
    assert read_settings(find_args(without)).notification_dir is None


def test_nothing_is_left_of_a_webhook_that_is_switched_off(helm: Helm) -> None:
    found = index_objects(helm.render("--set=webhook.enabled=false"))

    assert "--webhook-address=:9443" not in find_args(list(found.values()))
    assert [name for name in found if "webhook" in name.lower()] == []
    assert len(found["NetworkPolicy/hearth"]["spec"]["ingress"]) == 1
    patched = [each for each in found["ClusterRole/hearth-operator"]["rules"] if "resourceNames" in each]
    assert patched == []


def find_args(objects: list[dict[str, Any]]) -> list[str]:
    """The arguments of the operator."""
    (workload,) = [each for each in objects if each["kind"] in ("Deployment", "StatefulSet")]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return list(container["args"])


def read_settings(arguments: list[str]) -> Settings:
    """The settings as the program parses them."""
    seen: list[Settings] = []

    def run(settings: Settings) -> int:
        seen.append(settings)
        return 0

    programs = main.Programs(run=run)
    result = click.testing.CliRunner().invoke(main.main, arguments, obj=programs)
    assert result.exit_code == 0, result.output
    return seen[0]
