"""HTML from the templates of this package. Every value is escaped; a value is never markup by itself.

The one exception is the picture, which ElementTree escapes. Must not know requests.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import jinja2
from markupsafe import Markup

from hearth.cli.stack_views.tree import tree_view

SIGNS: Final = {state: sign.strip() for state, (sign, _) in tree_view.SIGNS.items()}


class Renderer:
    """The templates of one server."""

    def __init__(self, *, root: str, action_token: str) -> None:
        """root: the path under which everything is."""
        self.root = root
        self._environment = jinja2.Environment(
            loader=jinja2.PackageLoader("hearth.cli.page"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals |= {"root": root, "action_token": action_token, "signs": SIGNS}

    def render(self, template: str, values: Mapping[str, Any]) -> str:
        """Return a template with these values."""
        return self._environment.get_template(template).render(values)


def mark_safe(picture: str) -> Markup:
    """Return a picture of `svg_drawing`, whose texts are escaped, as markup."""
    return Markup(picture)  # noqa: S704 -- ElementTree wrote it
