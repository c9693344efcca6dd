"""The programs around the control plane: the processes they stop, the signals they pass on, and the cluster they
use.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import binaries
import command
import locks
import places
import processes
import progress
import pytest
import toolchain

ROOT = places.HERE.parents[1]
FOREVER = "import signal; print('here', flush=True); signal.pause()"


@pytest.fixture
def python_in(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A folder, and a process that has it in its arguments and would never end."""
    command = [sys.executable, "-c", FOREVER, f"{tmp_path}/x"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        # For a moment after its start, a process has no arguments yet, so it reports when it does.
        assert process.stdout is not None
        assert process.stdout.readline() == b"here\n"
        yield tmp_path, process
        process.kill()


def this_python() -> frozenset[str]:
    return frozenset({Path(sys.executable).name})


def test_a_process_is_found_by_its_program_and_the_folder_it_uses(
    python_in: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    folder, process = python_in
    assert list(processes.find(this_python(), using=folder)) == [process.pid]
    assert processes.find(this_python(), using=folder / "other") == {}
    assert processes.find(frozenset({"etcd"}), using=folder) == {}


def test_a_folder_whose_name_only_begins_alike_is_another_one(
    python_in: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    folder, _ = python_in
    assert processes.find(this_python(), using=folder.with_name(folder.name[:-1])) == {}


def test_ending_returns_when_the_process_is_gone(python_in: tuple[Path, subprocess.Popen[bytes]]) -> None:
    folder, process = python_in
    processes.end(this_python(), using=folder)
    assert process.wait() == -signal.SIGKILL


def test_only_the_last_user_learns_that_no_user_is_left(tmp_path: Path) -> None:
    first, second = locks.Attendance(tmp_path / "users"), locks.Attendance(tmp_path / "users")
    first.enter()
    second.enter()
    assert not first.leave()
    assert second.leave()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("go1.26.8", (1, 26, 8), id="as Go names itself"),
        pytest.param("1.26", (1, 26, 0), id="without a patch"),
        pytest.param("go1.27rc1", (1, 27, 0), id="a candidate"),
        pytest.param("", None, id="nothing, as from a Go that cannot run"),
    ],
)
def test_a_version_of_go_is_read(text: str, expected: toolchain.Version | None) -> None:
    assert toolchain.parse_version(text) == expected


def test_the_servers_are_given_the_version_that_go_mod_pins() -> None:
    assert f"version.gitVersion={binaries.pinned_kubernetes()} " in binaries.linker_flags()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        pytest.param(["sh", "-c", "exit 7"], 7, id="its own code"),
        pytest.param(["--", "true"], 0, id="the dashes before it do not count"),
        pytest.param(["sh", "-c", "kill -TERM $$"], 143, id="a signal, as the shell counts it"),
        pytest.param(["sh", "-c", 'test "$KUBECONFIG" = /k && test "$HEARTH_TEST_KUBECONFIG" = /k'], 0, id="sees it"),
    ],
)
def test_a_command_runs_as_from_a_shell(words: list[str], expected: int) -> None:
    # Use a separate process, because the handlers that pass on a command's signals remain installed.
    program = "import sys, pathlib, command; sys.exit(command.run(sys.argv[1:], kubeconfig=pathlib.Path('/k')))"
    outcome = subprocess.run([sys.executable, "-c", program, *words], cwd=places.HERE, check=False)
    assert outcome.returncode == expected


@pytest.mark.parametrize(
    ("words", "message"),
    [
        pytest.param(["--"], "no command given", id="nothing to run"),
        pytest.param(["no-such-program"], "cannot run no-such-program: No such file", id="no such program"),
    ],
)
def test_a_command_that_cannot_run_is_named(words: list[str], message: str) -> None:
    with pytest.raises(progress.Impossible, match=message):
        command.run(words, kubeconfig=Path("/k"))


@pytest.mark.parametrize("target", ["run", "test", "bench"])
def test_a_cluster_set_in_the_environment_is_never_touched(target: str) -> None:
    shown = dry_run(target, KUBECONFIG="/another/production", FILES="x")
    assert "/another/production" not in shown
    assert "controlplane.py with" in shown


@pytest.mark.parametrize("target", ["run", "test", "bench"])
def test_a_cluster_named_on_the_command_line_of_make_is_used(target: str) -> None:
    shown = dry_run(target, "KUBECONFIG=/my/own", KUBECONFIG="/another/production")
    assert "HEARTH_TEST_KUBECONFIG=/my/own " in shown
    assert "controlplane.py with" not in shown


def test_recipes_do_not_inherit_the_cluster_of_the_environment(tmp_path: Path) -> None:
    more = tmp_path / "more.mk"
    more.write_text("print-kubeconfig: ; @echo kubeconfig=$$KUBECONFIG\n")
    words = ("--file=Makefile", f"--file={more}", "print-kubeconfig")
    assert make(*words, KUBECONFIG="/another/production") == "kubeconfig=\n"


def dry_run(*words: str, **environment: str) -> str:
    return make("--dry-run", *words, **environment)


def make(*words: str, **environment: str) -> str:
    # Remove the flags and variables that a surrounding make passes down, because these calls run their own make.
    clean = {
        key: value
        for key, value in os.environ.items()
        if key not in {"MAKEFLAGS", "MFLAGS", "MAKEOVERRIDES", "MAKELEVEL"}
    }
    outcome = subprocess.run(
        ["make", *words], cwd=ROOT, env=clean | environment, capture_output=True, text=True, check=False
    )
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout
