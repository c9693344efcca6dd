"""Reads the definitions in ControllerRevisions, including large ones in several objects, without the operator's own
code.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterable, Mapping

from hearth.model import names
from hearth.model.child import Object

COMPRESSED = "compressed"
GZIP = 16 + zlib.MAX_WBITS


class StoredRevisions:
    """The definitions of all revisions that were ever stored."""

    def __init__(self) -> None:
        """Begin with none."""
        self._found: dict[tuple[str, int], Object] = {}
        """The revisions by UID of the Stack and number."""
        self._parts: dict[str, Object] = {}
        """The data of further objects by name."""

    def on_stored(self, raw: Object) -> None:
        """Record a revision, or a further object of one, which is stored before it."""
        if is_part(raw):
            self._parts[raw["metadata"]["name"]] = raw["data"]
            return
        number = int(raw["metadata"]["annotations"][names.ANNOTATION_REVISION])
        owner = raw["metadata"]["labels"][names.LABEL_STACK_UID]
        self._found[(owner, number)] = read_definition(raw, self._parts)

    def get(self, uid: str, number: int) -> Object:
        """The definition of that number."""
        return self._found[(uid, number)]


def is_part(raw: Object) -> bool:
    """Whether it is a further object of a revision; a watch by label does not show it."""
    return not raw["metadata"].get("labels")


def read_definition(raw: Object, others: Mapping[str, Object]) -> Object:
    """The definition of a revision; its readable text if a further object is missing. others: their data by name."""
    data: Object = raw["data"]
    if COMPRESSED not in data:
        return data
    name, texts = raw["metadata"]["name"], [data[COMPRESSED]]
    while (part := others.get(f"{name}-part-{len(texts)}")) is not None:
        texts.append(part[COMPRESSED])
    stream = zlib.decompressobj(wbits=GZIP)
    text = stream.decompress(base64.b64decode("".join(texts))).decode(errors="replace")
    found: Object = json.loads(text) if stream.eof else {"text": text}
    return found


def read_all(revisions: Iterable[Object]) -> list[Object]:
    """The definitions of these revisions; the list includes their further objects."""
    whole = list(revisions)
    others = {raw["metadata"]["name"]: raw["data"] for raw in whole if is_part(raw)}
    return [read_definition(raw, others) for raw in whole if not is_part(raw)]
