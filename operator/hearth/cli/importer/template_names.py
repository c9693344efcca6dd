"""Converts names of other tools to names that templates allow: unique lower camel case, without reserved words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from hearth.model import instance_fields, names
from hearth.template.cel import cel_environment
from hearth.template.parser import template_parser

LENGTH: Final = 40
RESERVED_FIELDS: Final = template_parser.RESERVED_NAMES | cel_environment.LITERALS | {instance_fields.OPTIONS, "status"}
RESERVED_IDS: Final = template_parser.RESERVED_RESOURCE_NAMES | {template_parser.MEMBER_KEY}


def choose_fields(stated: Iterable[str]) -> dict[str, str]:
    """Return the name of each parameter or output, by its name in the other tool."""
    return choose(stated, reserved=RESERVED_FIELDS, suffix="Value")


def choose_ids(stated: Iterable[str]) -> dict[str, str]:
    """Return the name of each resource by its id."""
    return choose(stated, reserved=RESERVED_IDS, suffix="Object")


def choose(stated: Iterable[str], *, reserved: frozenset[str], suffix: str) -> dict[str, str]:
    """Return a template name for each name. Valid names are unchanged. suffix: appended to reserved words."""
    all_stated = list(stated)
    chosen = {name: name for name in all_stated if names.RESOURCE_NAME.fullmatch(name) and name not in reserved}
    taken = set(chosen.values())
    for name in all_stated:
        if name not in chosen:
            base = make_camel_case(name)
            base = (f"{base}{suffix}" if base in reserved else base)[:LENGTH]
            number, found = 1, base
            while found in taken or found in reserved:
                number += 1
                found = f"{base[: LENGTH - len(str(number))]}{number}"
            chosen[name] = found
            taken.add(found)
    return {name: chosen[name] for name in all_stated}


def make_camel_case(name: str) -> str:
    """Return `awsRegion` for `aws_region`."""
    words = re.findall(r"[A-Za-z0-9]+", name)
    joined = "".join(f"{word[0].upper()}{word[1:]}" if at else word for at, word in enumerate(words))
    joined = joined if joined[:1].isalpha() else f"n{joined}"
    # An acronym at the beginning is one word: `vpcId` for `VPCId`.
    beginning = re.match(r"[A-Z]+(?![a-z])|[A-Z]", joined)
    return joined if beginning is None else beginning[0].lower() + joined[beginning.end() :]
