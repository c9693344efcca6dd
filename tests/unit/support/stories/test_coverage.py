"""`tests/stories/COVERAGE.md` says where each scenario is played, and so do the titles of the stories."""

import re

from support.stories import story

TABLE = (story.FOLDER / "COVERAGE.md").read_text()
ROWS = {match[1]: match[2] for match in re.finditer(r"^\| ([CEFHR]\d\d) \|(.*)\|$", TABLE, re.MULTILINE)}
TITLES = {played.slug: re.findall(r"[CEFHR]\d\d", played.title.partition(":")[0]) for played in story.load_all()}


def test_every_story_in_the_table_is_there() -> None:
    """A renamed story would be sought in vain."""
    named = {slug for row in ROWS.values() for slug in re.findall(r"`([\w-]+)`", row) if "-" in slug}

    assert sorted(named - TITLES.keys()) == []


def test_the_titles_say_the_same_as_the_table() -> None:
    """A story that names a scenario stands in its row."""
    missing = [
        f"{slug} in {number}" for slug, numbers in TITLES.items() for number in numbers if slug not in ROWS[number]
    ]

    assert missing == []
