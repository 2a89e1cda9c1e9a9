"""Translated pages have what their English pages have: a change of one fails here until the others follow."""

import re
from pathlib import Path

import pytest

from tests.docs import translations
from tests.docs.blocks import LANGUAGES, PAGES, ROOT, original_of
from tests.docs.translations import ONLY_HERE, differences, has_translation, translations_of

TRANSLATED = {page: original for page in PAGES if (original := original_of(page)) is not None}
ENGLISH = [page for page in PAGES if original_of(page) is None and has_translation(page)]
NAMES = {"en": "English", "zh": "中文", "ko": "한국어"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", TRANSLATED, ids=name_of)
def test_a_translation_has_all_of_its_english_page(page: Path) -> None:
    assert differences(TRANSLATED[page], page) == []


def test_every_page_is_in_every_language() -> None:
    assert {name_of(page) for page in ENGLISH} >= {
        "README.md",
        "docs/explanation/spanbert.md",
        "docs/explanation/bert.md",
        "docs/explanation/xlnet.md",
        "docs/tutorials/own-text.md",
    }
    for page in ENGLISH:
        assert len(translations_of(page)) == len(LANGUAGES), name_of(page)


def language_of(page: Path) -> str:
    return next((language for language in LANGUAGES if language in (page.parent.name, page.name.split(".")[1])), "en")


@pytest.mark.parametrize("page", [*TRANSLATED, *ENGLISH], ids=name_of)
def test_a_page_leads_to_the_other_languages(page: Path) -> None:
    links = {
        name: (page.parent / target).resolve()
        for name, target in re.findall(r"\[(English|中文|한국어)\]\(([^)]+)\)", page.read_text(encoding="utf-8"))
    }
    english = TRANSLATED.get(page, page)
    pages = {NAMES[language_of(other)]: other for other in (english, *translations_of(english))}
    assert links == {name: other for name, other in pages.items() if other != page}


PAGE = """# A page

[中文](zh/page.md) · [한국어](ko/page.md)

Of 20 words `masking.ratio=0.15` masks 3, see [masks](masks.md#all). With $p = 0.2$:

    spanlab fill MODEL "The old [MASK]."

## Figures

| what | how much |
|---|---|
| `mlm` | 2.5x |

<!-- measured: ratios -->
| a | 3x |
<!-- end of measured -->

```python
print("one sentence")  # a remark
```
"""
TRANSLATION = f"""# 一页

[English](../page.md) · [한국어](../ko/page.md)

`masking.ratio=0.15` 在 20 个词中掩盖 3 个，见[掩码](../masks.md#all)，其中 $p = 0.2$：

    spanlab fill MODEL "老[MASK]。"   # 注释

{ONLY_HERE}

## 关于中文

7 件事。

## 数据

| 内容 | 数值 |
|---|---|
| `mlm` | 2.5x |

<!-- measured: ratios -->
| a | 3x |
<!-- end of measured -->

```python
print("一句话")
```
"""


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    for folder in ("zh", "ko"):
        (tmp_path / folder).mkdir()
    monkeypatch.setattr(translations, "ROOT", tmp_path)
    original, translation = tmp_path / "page.md", tmp_path / "zh" / "page.md"
    original.write_text(PAGE, encoding="utf-8")
    translation.write_text(TRANSLATION, encoding="utf-8")
    return original, translation


def test_a_good_translation_passes(pages: tuple[Path, Path]) -> None:
    assert differences(*pages) == []


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("## Figures", "### Figures", "has the sections"),
        ("## Figures", "## New\n\nNews.\n\n## Figures", "## New"),
        ("Of 20 words", "Of 21 words", "lacks the figures 21"),
        ("masking.ratio=0.15", "masking.ratio=0.2", "lacks the code `masking.ratio=0.2`"),
        ("masks.md#all", "other.md", "links: other.md missing, masks.md#all not"),
        ("$p = 0.2$", "$p = 0.5$", r"formulas: \$p = 0.5\$ missing"),
        ("fill MODEL", "embed MODEL", "lacks the code `spanlab embed MODEL SENTENCE`"),
        ("| `mlm` | 2.5x |", "| `mlm` | 2.6x |", "has other figures"),
        ("| `mlm` | 2.5x |", "| `sbo` | 2.5x |", "has other code"),
        ("| `mlm` | 2.5x |", "| `mlm` | 2.5x |\n| `sbo` | 3.0x |", "has 3 lines of tables, the English page 4"),
        ("| a | 3x |", "| a | 4x |", "what `make bench` writes is not the same"),
        ('print("one sentence")', 'print("one sentence", 1)', "lacks the code `print"),
        ("```python", "<!-- not run: needs a cluster -->\n```python", r"lacks the code `\(not run\)`"),
    ],
)
def test_a_change_of_the_english_page_is_told(pages: tuple[Path, Path], before: str, after: str, told: str) -> None:
    assert before in PAGE
    pages[0].write_text(PAGE.replace(before, after), encoding="utf-8")
    assert re.search(told, "\n".join(differences(*pages)))
