"""Links between pages, to files of the repository and to headings lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT

LINK = re.compile(r"(?<!`)\[[^\]]*\]\((?P<target>[^)\s]+)\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for match in LINK.finditer(_without_code(page)):
        target = match["target"]
        if target.startswith(("http://", "https://", "mailto:")):
            continue
        path, _, heading = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), target
        if heading:
            assert heading in _headings(file), target


def _without_code(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _headings(page: Path) -> set[str]:
    """Anchors as GitHub and mkdocs make them of the headings."""
    titles = re.findall(r"^#+ (.+)$", _without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}
