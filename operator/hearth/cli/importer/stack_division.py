"""A Stack that is too large for one object, divided into compressed ConfigMaps and a Stack that names them.

Must not know manifests, nor where the objects are written.
"""

from __future__ import annotations

import base64
import gzip
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from hearth.cli import object_fields
from hearth.model import limits, names
from hearth.model.child import Object
from hearth.model.errors import InvalidDefinition, Mistake

APPLIED_BYTES = 200 * 1024
"""Size of one object as JSON. `kubectl apply` stores a copy in an annotation, and all annotations have 256 KiB."""
ANNOTATION_BYTES = 256 * 1024
"""Size of all annotations of an object."""
COMPRESSED_BYTES = 128 * 1024
"""Size of one compressed part: base 64 adds a third."""
KEY = "template.json.gz"
SUFFIX = "-template"


def divide(stack: Object) -> list[Object]:
    """Return the objects to apply: the Stack alone if it fits, otherwise its ConfigMaps, then the Stack.

    Raises InvalidDefinition if those are more than a Stack can name.
    """
    if len(orjson.dumps(stack)) <= APPLIED_BYTES:
        return [stack]
    template = stack["spec"]["template"]
    rest = {section: content for section, content in template.items() if section != "resources"}
    parts = list(_split(dict(template["resources"])))
    if len(parts) > limits.TEMPLATE_SOURCES:
        message = f"takes {len(parts)} compressed ConfigMaps, and a Stack can name {limits.TEMPLATE_SOURCES}"
        raise InvalidDefinition([Mistake(path="the template", message=f"{message}; import fewer files at once")])
    maps = [
        _make_config_map(stack, name, {**(rest if at == 0 else {}), "resources": part})
        for at, (name, part) in enumerate(zip(_name_parts(stack, len(parts)), parts, strict=True))
    ]
    references = [{"name": each["metadata"]["name"], "key": KEY} for each in maps]
    spec = {key: value for key, value in stack["spec"].items() if key != "template"}
    return [*maps, {**stack, "spec": {"templateRefs": references, **spec}}]


def find_unapplicable(objects: Iterable[Object]) -> Iterator[str]:
    """Yield the names of the objects that `kubectl apply` accepts only with `--server-side`."""
    for each in objects:
        if len(orjson.dumps(each)) > ANNOTATION_BYTES:
            yield f"{each['kind'].lower()}/{each['metadata']['name']}"


def _name_parts(stack: Object, count: int) -> list[str]:
    """Return names for the ConfigMaps that none of the imported ones has: a Stack must not change its own source."""
    manifests = (each["manifest"] for each in stack["spec"]["template"]["resources"].values())
    taken = {object_fields.text(each, "metadata", "name") for each in manifests if each["kind"] == "ConfigMap"}
    stem = stack["metadata"]["name"] + SUFFIX
    stems = (stem if number == 1 else f"{stem}{number}" for number in itertools.count(1))
    candidates = (
        [names.shorten(f"{each}-{at}", length=names.NAME_LENGTH) for at in range(1, count + 1)] for each in stems
    )
    return next(found for found in candidates if taken.isdisjoint(found))


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


def _make_config_map(stack: Object, name: str, template: Object) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {**stack["metadata"], "name": name},
        "binaryData": {KEY: base64.b64encode(_compress(template)).decode()},
    }
