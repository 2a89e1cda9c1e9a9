"""Every Python snippet in the README and the documentation runs, page by page, in the order of the page."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SNIPPET = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
WITH_SNIPPETS = [page for page in PAGES if SNIPPET.search(page.read_text(encoding="utf-8"))]


def test_there_are_pages_to_run() -> None:
    assert ROOT / "README.md" in WITH_SNIPPETS


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=lambda page: str(page.relative_to(ROOT)))
def test_snippets_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "snippet"}
    for snippet in SNIPPET.findall(page.read_text(encoding="utf-8")):
        exec(compile(snippet, str(page), "exec"), names)
    assert len(names) > 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), target
