"""A Stack that is too large for one object, divided into compressed ConfigMaps and a Stack that names them.

Must not know manifests, nor where the objects are written.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from typing import Any

import orjson

from hearth.model import names
from hearth.model.child import Object

APPLIED_BYTES = 200 * 1024
"""Size of one object as JSON. `kubectl apply` stores a copy in an annotation, and all annotations have 256 KiB."""
COMPRESSED_BYTES = 128 * 1024
"""Size of one compressed part: base 64 adds a third."""
KEY = "template.json.gz"
SUFFIX = "-template-"


def divide(stack: Object) -> list[Object]:
    """Return the objects to apply: the Stack alone if it fits, otherwise its ConfigMaps, then the Stack."""
    if len(orjson.dumps(stack)) <= APPLIED_BYTES:
        return [stack]
    template = stack["spec"]["template"]
    rest = {section: content for section, content in template.items() if section != "resources"}
    parts = list(_split(dict(template["resources"])))
    maps = [
        _make_config_map(stack, at, {**(rest if at == 1 else {}), "resources": part})
        for at, part in enumerate(parts, start=1)
    ]
    references = [{"name": each["metadata"]["name"], "key": KEY} for each in maps]
    spec = {key: value for key, value in stack["spec"].items() if key != "template"}
    return [*maps, {**stack, "spec": {"templateRefs": references, **spec}}]


def _split(resources: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the resources in groups that are small enough when they are compressed, in their order."""
    if len(resources) == 1 or len(_compress({"resources": resources})) <= COMPRESSED_BYTES:
        yield resources
        return
    entries = list(resources.items())
    sizes = [len(orjson.dumps(value)) for _, value in entries]
    half, passed, middle = sum(sizes) / 2, 0, 1
    for at, size in enumerate(sizes):
        passed += size
        if passed >= half:
            middle = min(max(at + 1, 1), len(entries) - 1)
            break
    yield from _split(dict(entries[:middle]))
    yield from _split(dict(entries[middle:]))


def _compress(template: Object) -> bytes:
    # Without a timestamp, the same template always gives the same bytes.
    return gzip.compress(orjson.dumps(template), mtime=0)


def _make_config_map(stack: Object, at: int, template: Object) -> Object:
    name = names.shorten(f"{stack['metadata']['name']}{SUFFIX}{at}", length=names.NAME_LENGTH)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**stack["metadata"], "name": name},
        "binaryData": {KEY: base64.b64encode(_compress(template)).decode()},
    }
