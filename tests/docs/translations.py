"""What must be the same on a page and its translation, and what is not.

Prose is free. Everything that can be right or wrong is compared section by section: headings, code, tables' figures and
code, formulas, links, and the figures and code in the text. The sentences inside commands and snippets may be in the
language of the page, and so may their comments.

A section with `ONLY_HERE` above its heading is the translation's own. What `make bench` writes into a page stands
between marks: on lines of their own, it must be the same in both; inside a sentence, a translation may do without it.
"""

import ast
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.blocks import LANGUAGES, ROOT, SHELL, Block, blocks_of, original_of
from tests.docs.shell import commands_of

ONLY_HERE = "<!-- only in this language -->"
_WRITTEN = re.compile(r"^<!-- measured: \w+ -->\n.*?^<!-- end of measured -->\n", re.DOTALL | re.MULTILINE)
_WRITTEN_INLINE = re.compile(r"<!-- measured: \w+ -->.*?<!-- end of measured -->", re.DOTALL)
_LANGUAGE_LINE = re.compile(
    r"^\[(?:English|中文|한국어)\]\([^)]+\) · \[(?:English|中文|한국어)\]\([^)]+\)$", re.MULTILINE
)
_HEADING = re.compile(r"^(#+) (.+)$")
_FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:^|(?<=\n\n))(?:    .*\n)+")
_LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_CODE = re.compile(r"`[^`]+`")
_FORMULA = re.compile(r"\$\$.*?\$\$|\$[^$]+\$", re.DOTALL)
_FIGURE = re.compile(r"\d+(?:[.,]\d+)*")


@dataclass(frozen=True, kw_only=True)
class Section:
    """The text under one heading, without the code blocks."""

    level: int
    title: str
    code: tuple[str, ...]
    text: str


def differences(original: Path, translation: Path) -> list[str]:
    """What one page has and the other lacks, each told in one line."""
    english, other = sections_of(original), sections_of(translation)
    name = translation.name if translation.parent == ROOT else f"{translation.parent.name}/{translation.name}"
    if [section.level for section in english] != [section.level for section in other]:
        titles = [[f"{'#' * section.level} {section.title}" for section in sections] for sections in (english, other)]
        return [f"{name} has the sections {titles[1]}, {original.name} has {titles[0]}"]
    found = [] if written(original) == written(translation) else ["what `make bench` writes is not the same"]
    for one, two in zip(english, other, strict=True):
        told = [*_in_code(one, two), *_in_tables(one, two), *_in_text(one, two, original, translation)]
        found += [f"'{two.title}' ({one.title}): {difference}" for difference in told]
    return [f"{name}: {difference}" for difference in found]


def written(page: Path) -> list[str]:
    """What a benchmark has written into a page, on lines of its own."""
    return _WRITTEN.findall(page.read_text(encoding="utf-8"))


def sections_of(page: Path) -> list[Section]:
    """The sections of a page in their order, those left out that are only in its language."""
    lines = page.read_text(encoding="utf-8").splitlines()
    heads = [number for number, line in enumerate(lines) if _HEADING.match(line) and not _is_code(page, number + 1)]
    sections = []
    for first, last in zip(heads, [*heads[1:], len(lines)], strict=True):
        if ONLY_HERE in lines[max(0, first - 2) : first]:
            continue
        heading = _HEADING.match(lines[first])
        assert heading
        blocks = [block for block in blocks_of(page) if first < block.line - 1 < last]
        text = "\n".join(lines[first + 1 : last]) + "\n"
        sections.append(
            Section(
                level=len(heading[1]),
                title=heading[2],
                code=tuple(line for block in blocks for line in _normalised(block)),
                text=_without_code(text),
            )
        )
    return sections


def _is_code(page: Path, line: int) -> bool:
    return any(block.line <= line < block.line + block.text.count("\n") for block in blocks_of(page))


def _without_code(text: str) -> str:
    for pattern in (_FENCED, _WRITTEN, _WRITTEN_INLINE, _LANGUAGE_LINE, _INDENTED):
        text = pattern.sub("", text)
    return re.sub(r"<!--.*?-->", "", text)


# Code.


def _normalised(block: Block) -> Iterator[str]:
    """The commands, Python or lines of a block; sentences, comments and the language of sample data left out."""
    told = ["(not run)"] if block.reason else []
    if block.language == "python":
        tree = ast.parse(block.text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and _is_sentence(node.value):
                node.value = "SENTENCE"
        yield from [*told, *ast.unparse(tree).splitlines()]
        return
    if block.language not in SHELL:
        yield from [*told, *block.text.splitlines()]
        return
    for command in commands_of(block):
        words = ["SENTENCE" if _is_sentence(word) else word for word in shlex.split(command, comments=True)]
        yield re.sub(r"--language \w+", "--language LANGUAGE", " ".join([*told, *words]))


def _is_sentence(text: str) -> bool:
    return " " in text or not text.isascii()


def _in_code(english: Section, other: Section) -> Iterator[str]:
    for line in [line for line in english.code if line not in other.code]:
        yield f"lacks the code `{line}`"
    for line in [line for line in other.code if line not in english.code]:
        yield f"has the code `{line}`, which the English page lacks"
    if Counter(english.code) == Counter(other.code) and english.code != other.code:
        yield "has the code in another order"


# Tables.


def _in_tables(english: Section, other: Section) -> Iterator[str]:
    rows, others = _rows(english.text), _rows(other.text)
    if len(rows) != len(others):
        yield f"has {len(others)} lines of tables, the English page {len(rows)}"
        return
    for row, counterpart in zip(rows, others, strict=True):
        if row.count("|") != counterpart.count("|"):
            yield f"the row '{counterpart}' has other columns than '{row}'"
        for what, of in (("figures", _figures), ("code", _code_spans)):
            if of(row) != of(counterpart):
                yield f"the row '{counterpart}' has other {what} than '{row}'"


def _rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("|")]


# Text.


def _in_text(english: Section, other: Section, original: Path, translation: Path) -> Iterator[str]:
    formulas = (_formulas(english.text), _formulas(other.text))
    if formulas[0] != formulas[1]:
        yield f"formulas: {_told(formulas[0] - formulas[1])} missing, {_told(formulas[1] - formulas[0])} not English"
    links = (_links(english.text, original), _links(other.text, translation))
    if links[0] != links[1]:
        yield f"links: {_told(links[0] - links[1])} missing, {_told(links[1] - links[0])} not on the English page"
    parts: tuple[tuple[str, Callable[[str], Counter[str]]], ...] = (("figures", _figures), ("code", _code_spans))
    for what, of in parts:
        # A translation may repeat a figure, or write digits where English has a word.
        if lacking := of(_prose(english.text)) - of(_prose(other.text)):
            yield f"lacks the {what} {_told(lacking)}"


def _prose(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("|"))


def _figures(text: str) -> Counter[str]:
    bare = _LINK.sub(lambda link: link[0].partition("](")[0], _CODE.sub("", _FORMULA.sub("", text)))
    return Counter(_FIGURE.findall(bare))


def _code_spans(text: str) -> Counter[str]:
    return Counter(" ".join(code.split()) for code in _CODE.findall(text))


def _formulas(text: str) -> Counter[str]:
    return Counter(" ".join(formula.split()) for formula in _FORMULA.findall(_CODE.sub("", text)))


def _links(text: str, page: Path) -> Counter[str]:
    """The targets of links to other pages; one to a translated page counts as one to its English page."""
    targets = (link["target"] for link in _LINK.finditer(text))
    return Counter(_canonical(target, page) for target in targets if not target.startswith("#"))


def _canonical(target: str, page: Path) -> str:
    path, _, heading = target.partition("#")
    if ":" in path:
        return target
    file = (page.parent / path).resolve()
    english = original_of(file) or file
    # Headings are translated, so a link to one in a page with a translation may lead to the page as a whole.
    return str(english.relative_to(ROOT)) + (f"#{heading}" if heading and not has_translation(english) else "")


def has_translation(page: Path) -> bool:
    """Whether a page is there in the other languages, too."""
    return bool(translations_of(page))


def translations_of(page: Path) -> list[Path]:
    """The translations of an English page."""
    pages = (*ROOT.glob("README.*.md"), *(path for name in LANGUAGES for path in (ROOT / "docs" / name).glob("*.md")))
    return sorted(path for path in pages if original_of(path) == page)


def _told(items: Iterable[str]) -> str:
    return ", ".join(items) or "none"
