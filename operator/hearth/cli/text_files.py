"""Reads text files and standard input, with or without gzip compression."""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import Final

import click

from hearth.model import limits, packing

STANDARD_INPUT: Final = "-"
MANIFESTS: Final = (".yaml", ".yml", ".json")
"""File name suffixes that are read from a folder."""
GZIP_MAGIC: Final = b"\x1f\x8b"
"""The first bytes of every gzip file."""


def find(named: str, ends: tuple[str, ...] = MANIFESTS) -> list[str]:
    """Return the files that an argument names: a file, or all files with these suffixes in a folder and its subfolders,
    by path.

    Hidden files are left out. Ends the program if a folder has none, or a link in it leads elsewhere.
    """
    folder = Path(named)
    if named == STANDARD_INPUT or not folder.is_dir():
        return [named]
    found = sorted(
        each
        for each in folder.rglob("*")
        if each.name.endswith(ends)
        and each.is_file()
        and not any(part.startswith(".") for part in each.relative_to(folder).parts)
    )
    if not found:
        raise click.ClickException(f"there is no {', '.join(ends)} file in folder {quote(named)}")
    for each in found:
        if each.is_symlink():
            check_inside(each, folder)
    return [str(each) for each in found]


def check_inside(file: Path, folder: Path) -> None:
    """End the program if a file, with links followed, is neither in this folder nor in the current one.

    The author of a repository must not choose what a pipeline reads on its machine.
    """
    found = file.resolve()
    if not any(found.is_relative_to(each.resolve()) for each in (folder, Path.cwd())):
        message = (
            f"cannot read {quote(str(file))}: it is outside of the current folder and of {quote(str(folder))}; "
            "run the command in a folder that contains both"
        )
        raise click.ClickException(message)


def read(file: str) -> str:
    """Return the text of a file, decompressed if needed. Ends the program if it cannot be read."""
    source = quote(file)
    try:
        content = sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
        if content.startswith(GZIP_MAGIC):
            content = packing.inflate(content, limit=limits.IMPORT_BYTES)
        return content.decode()
    except UnicodeDecodeError as error:
        message = f"{source} is not valid UTF-8: {error.reason} at byte {error.start}"
        raise click.ClickException(message) from error
    except (ValueError, zlib.error) as error:
        raise click.ClickException(f"cannot decompress {source}: {error}") from error
    except OSError as error:
        raise click.ClickException(f"cannot read {source}: {error.strerror or error}") from error


def quote(file: str) -> str:
    """Return the name of a file on one line, for messages and comments: a line break would start another line."""
    if file == STANDARD_INPUT:
        return "standard input"
    return file if file.isprintable() else ascii(file)
