"""`hearth run`: flags and variables become settings."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click.testing
import pytest

from hearth.cli import main
from hearth.cli.commands import run
from hearth.model.tenancy import Mode
from hearth.settings import Address, Settings

FLAGS = (
    "kubeconfig context namespace namespaced-watches operator-namespace serve-operator-namespace tenancy "
    "definition-groups definition-accounts default-service-account other-clusters clusters-memory "
    "allow-loopback-clusters http-address webhook-address webhook-secret webhook-configuration check-authors "
    "log-format log-level max-concurrent-writes max-backoff leader-election ignore-leader lease-name "
    "lease-duration renew-deadline retry-period shards shard notification-dir notification-format notification-source profile"
).split()


class Operator:
    """Records the settings instead of running with them."""

    def __init__(self) -> None:
        self.settings: Settings | None = None

    def run(self, settings: Settings) -> int:
        self.settings = settings
        return 7


def invoke(*arguments: str, **environment: str) -> tuple[click.testing.Result, Settings | None]:
    operator = Operator()
    result = click.testing.CliRunner().invoke(
        main.main, ["run", *arguments], obj=main.Programs(run=operator.run), env=environment
    )
    return result, operator.settings


def test_without_flags_the_settings_are_the_usual_ones() -> None:
    assert invoke()[1] == Settings()


def test_every_flag_is_heard(tmp_path: Path) -> None:
    settings = invoke(
        *("--webhook-address", ":9443", "--webhook-secret", "tls", "--webhook-configuration", "ours"),
        *("--kubeconfig", "some/config", "--context", "other", "--namespace", "shop", "--operator-namespace", "hearth"),
        *("--http-address", "[::1]:9", "--log-format", "json", "--log-level", "debug", "--max-concurrent-writes", "5"),
        *("--max-backoff", "90s", "--leader-election", "--lease-name", "mine", "--lease-duration", "1m"),
        *("--renew-deadline", "30s", "--retry-period", "5s", "--definition-groups", "platform.example,shop.example"),
        *("--definition-accounts", "platform:webapps,platform:shops", "--no-check-authors"),
        *("--profile", str(tmp_path / "profile"), "--tenancy", "trusted", "--default-service-account", "deployer"),
        *("--allow-loopback-clusters", "--no-other-clusters", "--clusters-memory", "300"),
        *("--namespaced-watches", "Secret,Certificate.cert-manager.io", "--serve-operator-namespace"),
    )[1]

    assert settings == Settings(
        kubeconfig="some/config",
        context="other",
        namespace="shop",
        operator_namespace="hearth",
        namespaced_watches=frozenset({"Secret", "Certificate.cert-manager.io"}),
        serve_operator_namespace=True,
        tenancy=Mode.TRUSTED,
        default_service_account="deployer",
        allow_loopback_clusters=True,
        other_clusters=False,
        clusters_memory=300,
        http_address=Address(host="::1", port=9),
        webhook_address=Address(host="0.0.0.0", port=9443),
        webhook_secret="tls",
        webhook_configuration="ours",
        check_authors=False,
        log_format="json",
        log_level="debug",
        max_concurrent_writes=5,
        max_backoff=timedelta(seconds=90),
        leader_election=True,
        lease_name="mine",
        lease_duration=timedelta(seconds=60),
        renew_deadline=timedelta(seconds=30),
        retry_period=timedelta(seconds=5),
        definition_groups=frozenset({"platform.example", "shop.example"}),
        definition_accounts=frozenset({"platform:webapps", "platform:shops"}),
        profile=str(tmp_path / "profile"),
    )


def test_a_variable_stands_for_a_flag_and_the_flag_wins() -> None:
    environment = {"HEARTH_NAMESPACE": "by-variable", "HEARTH_MAX_CONCURRENT_WRITES": "4"}

    settings = invoke("--namespace", "by-flag", **environment)[1]

    assert settings is not None
    assert (settings.namespace, settings.max_concurrent_writes) == ("by-flag", 4)


def test_a_variable_or_flag_set_to_nothing_is_not_given() -> None:
    settings = invoke("--context", "", HEARTH_NAMESPACE="", HEARTH_KUBECONFIG="")[1]

    assert settings == Settings()


@pytest.mark.parametrize("flag", FLAGS)
def test_help_explains_every_flag_and_its_variable(flag: str) -> None:
    output = invoke("--help")[0].stdout

    assert f"--{flag}" in output
    assert f"HEARTH_{flag.upper().replace('-', '_')}" in "".join(output.split())


def test_every_flag_is_known_to_this_test() -> None:
    names = [parameter.opts[0].removeprefix("--") for parameter in run.run.params]

    assert names == FLAGS


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("--http-address", "8080"), "'8080' is not an address: write host:port", id="no host"),
        pytest.param(("--max-backoff", "5"), "'5' is not a positive duration", id="no unit"),
        pytest.param(("--max-concurrent-writes", "0"), "0 is not in the range", id="no writes at all"),
        pytest.param(("--shards", "257"), "257 is not in the range", id="more shards than buckets"),
        pytest.param(("--profile", "/nowhere/profile"), "cannot write /nowhere/profile: No such", id="no such folder"),
        pytest.param(("--log-format", "xml"), "'xml' is not one of", id="unknown format"),
    ],
)
def test_a_wrong_value_is_reported_with_its_flag(arguments: tuple[str, str], words: str) -> None:
    result, settings = invoke(*arguments)

    assert result.exit_code == 2
    assert arguments[0] in result.output
    assert words in " ".join(result.output.split())
    assert settings is None


def test_durations_of_a_lease_that_do_not_fit_together_are_refused() -> None:
    result, settings = invoke("--leader-election", "--renew-deadline", "20s")

    assert result.exit_code == 2
    assert "found 2 s, 20 s and 15 s" in " ".join(result.output.replace("│", " ").split())
    assert settings is None


def test_a_shard_that_cannot_be_known_is_asked_for() -> None:
    result, settings = invoke("--shards", "3", "--shard", "3")

    assert result.exit_code == 2
    assert "there is no shard 3 of 3: valid numbers are 0 to 2" in result.output
    assert settings is None


def test_the_exit_code_is_that_of_the_operator() -> None:
    assert invoke()[0].exit_code == 7


def test_an_operator_does_not_serve_its_own_namespace_by_accident() -> None:
    refused, settings = invoke("--namespace", "shop", "--operator-namespace", "shop", "--tenancy", "strict")

    assert settings is None
    assert refused.exit_code == 2
    assert "could read and write the key of all signatures there" in refused.output
    assert "--serve-operator-namespace" in refused.output
    assert invoke("--namespace", "shop", "--operator-namespace", "shop", "--serve-operator-namespace")[1] is not None
