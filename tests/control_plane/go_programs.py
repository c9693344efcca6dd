"""Programs from pinned Go modules: built once, kept outside the checkout.

A module is a folder with `go.mod` and `go.sum`, which pin the versions.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import locks
import places
import progress
import toolchain


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """One program, and the package of a pinned module that it is built from."""

    name: str
    module: Path
    """The folder of go.mod and go.sum."""
    package: str
    linker_flags: str = "-s -w"
    """Small programs; `-X` sets a version."""
    tags: str = ""
    """Build tags, separated by spaces."""
    unneeded: tuple[str, ...] = ()
    """Names of files of the package's module that only cost time: the program is built from a copy without them."""


def build_go_program(program: Program) -> Path:
    """Return the path of the program; builds it first unless this machine has it."""
    return build_together([program], title=program.name) / program.name


def build_together(programs: Sequence[Program], *, title: str) -> Path:
    """Build missing programs in this order; return the folder that holds all of them."""
    folder = find_folder([program.module for program in programs])
    if _missing(programs, folder):
        with locks.only_one(
            folder / ".lock",
            when_waiting=lambda: progress.say(f"another build of {title} runs: waiting for it"),
        ):
            _build(programs, folder, title)
    return folder


def find_folder(modules: Sequence[Path]) -> Path:
    """The folder for the programs of exactly these module versions."""
    digest = hashlib.sha256()
    for module in sorted(set(modules)):
        # A module may have a program of its own.
        for name in ("go.mod", "go.sum", *sorted(path.name for path in module.glob("*.go"))):
            digest.update(f"{module.name}/{name}\0".encode() + module.joinpath(name).read_bytes())
    return places.cache() / "bin" / digest.hexdigest()[:16]


def read_pin(module: Path, path: str) -> str:
    """The version of the Go module `path` that go.mod asks for, as in `v1.36.3`."""
    found = re.search(rf"{re.escape(path)} (v\S+)", _read_go_mod(module))
    if found is None:
        raise progress.Impossible(f"{module}/go.mod names no version of {path}: restore it")
    return found[1]


def download(module: Path) -> Path:
    """Return the folder of the only module that go.mod requires, for its files."""
    go = toolchain.find_or_fetch(_parse_least_go(module))
    return Path(_run_json([go, "mod", "download", "-json"], module)["Dir"])


def _missing(programs: Sequence[Program], folder: Path) -> list[Program]:
    return [program for program in programs if not folder.joinpath(program.name).exists()]


def _build(programs: Sequence[Program], folder: Path, title: str) -> None:
    missing = _missing(programs, folder)
    if not missing:
        return
    for left_behind in folder.glob(".*-*"):  # by a build that was killed
        shutil.rmtree(left_behind)
    go = toolchain.find_or_fetch(max(_parse_least_go(program.module) for program in programs))
    progress.say(
        f"building {len(missing)} of {len(programs)} programs ({title}) with {go} into {folder}\n"
        "  once per version; it takes minutes on two cores"
    )
    started = time.monotonic()
    for program in missing:
        with progress.step(f"  [{programs.index(program) + 1}/{len(programs)}] {program.name}") as tick:
            _build_one(program, go=go, folder=folder, tick=tick)
    progress.say(f"  built in {time.monotonic() - started:.0f} s altogether")


def _build_one(program: Program, *, go: Path, folder: Path, tick: progress.Tick) -> None:
    """Build under a temporary name and move the result into place, so that an interruption leaves no partial file."""
    with tempfile.TemporaryDirectory(dir=folder, prefix=f".{program.name}-") as beside:
        product, log = Path(beside, program.name), Path(beside, "log")
        command = [str(go), "build", "-buildvcs=false", "-trimpath", "-ldflags", program.linker_flags]
        if program.unneeded:
            command += ["-modfile", str(_copy_module(program, go=go, folder=Path(beside)))]
        command += ["-tags", program.tags, "-o", str(product), program.package]
        with log.open("w") as output, _start(command, program.module, output.fileno()) as process:
            _wait(process, tick)
        if process.returncode != 0:
            raise progress.Impossible(
                f"cannot build {program.name} from {program.module}/go.mod: go said\n{_tail(log)}\n"
                "what was built so far is kept; when the cause is gone, run the same command again"
            )
        product.rename(folder / program.name)


def _copy_module(program: Program, *, go: Path, folder: Path) -> Path:
    """Copy the module of the package without its unneeded files; return a go.mod that uses the copy."""
    module = _run_json([go, "list", "-json=Module", program.package], program.module)["Module"]
    copy, go_mod = folder / "module", folder / "go.mod"
    shutil.copytree(module["Dir"], copy, ignore=shutil.ignore_patterns(*program.unneeded))
    shutil.copyfile(program.module / "go.sum", folder / "go.sum")
    go_mod.write_text(f"{_read_go_mod(program.module)}\nreplace {module['Path']} => {copy}\n")
    return go_mod


def _run_json(command: Sequence[str | Path], module: Path) -> dict[str, Any]:
    """Return what a `go` command prints about a module."""
    found = subprocess.run(
        command, cwd=module, env=os.environ | toolchain.ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        raise progress.Impossible(f"cannot download what {module}/go.mod requires: {found.stderr or found.stdout}")
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def _start(command: list[str], module: Path, output: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=module,
        env=os.environ | toolchain.ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
    )


def _wait(process: subprocess.Popen[bytes], tick: progress.Tick) -> None:
    try:
        while process.poll() is None:
            tick()
            time.sleep(0.2)
    except BaseException:
        process.terminate()
        process.wait()
        raise


def _parse_least_go(module: Path) -> toolchain.Version:
    line = re.search(r"^go (\S+)$", _read_go_mod(module), re.MULTILINE)
    return (toolchain.parse_version(line[1]) if line else None) or (0, 0, 0)


def _read_go_mod(module: Path) -> str:
    return module.joinpath("go.mod").read_text()


def _tail(log: Path, lines: int = 15) -> str:
    return "\n".join(f"  {line}" for line in log.read_text(errors="replace").splitlines()[-lines:])
