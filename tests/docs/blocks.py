"""The code on a page of documentation: fenced blocks, and indented ones that begin with a command.

A block that cannot be run here says why in a comment just above it, `<!-- not run: it needs a GPU -->`; its commands
are still parsed.
"""

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")))
COMMANDS = ("spanlab", "make", "pip", "torchrun", "python", "docker", "ray", "pre-commit")
SHELL = ("bash", "sh", "console")
LANGUAGES = ("zh", "ko")
_FENCE = re.compile(r"^(?P<fence>```+)(?P<language>[\w-]*)\s*$")
_REASON = re.compile(r"^<!-- not run: (?P<reason>.+) -->$")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One piece of code, where it stands, and why it is not run, if so."""

    page: Path
    line: int
    language: str
    text: str
    reason: str | None = None

    @property
    def place(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


def original_of(page: Path) -> Path | None:
    """The English page of which this is a translation: README.zh.md of README.md, docs/zh/NAME of NAME elsewhere."""
    if page.parent == ROOT:
        is_translation = page.name in {f"README.{language}.md" for language in LANGUAGES}
        return ROOT / "README.md" if is_translation else None
    if page.parent.parent != ROOT / "docs" or page.parent.name not in LANGUAGES:
        return None
    named = (ROOT / "docs").rglob(page.name)
    (original,) = (other for other in named if other.parent.name not in LANGUAGES)
    return original


def blocks_of(page: Path) -> list[Block]:
    """All code of a page, in its order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    reason: str | None = None
    number = 0
    while number < len(lines):
        line = lines[number]
        fence = _FENCE.match(line)
        if fence:
            body = _until(lines, number + 1, fence["fence"])
            found.append(_block(page, number + 2, fence["language"], body, reason))
            number, reason = number + len(body) + 2, None
        elif _begins_commands(lines, number):
            body = _indented(lines, number)
            found.append(_block(page, number + 1, "bash", [text[4:] for text in body], reason))
            number, reason = number + len(body), None
        else:
            told = _REASON.match(line)
            reason = told["reason"] if told else (reason if not line.strip() else None)
            number += 1
    return found


def _block(page: Path, line: int, language: str, body: list[str], reason: str | None) -> Block:
    return Block(page=page, line=line, language=language, text="\n".join(body) + "\n", reason=reason)


def _until(lines: list[str], start: int, fence: str) -> list[str]:
    return lines[start : next(number for number in range(start, len(lines)) if lines[number].strip() == fence)]


def _begins_commands(lines: list[str], number: int) -> bool:
    line = lines[number]
    alone = number == 0 or not lines[number - 1].strip()
    return alone and line.startswith("    ") and line.split()[:1] != [] and line.split()[0] in COMMANDS


def _indented(lines: list[str], start: int) -> list[str]:
    end = start
    while end < len(lines) and lines[end].startswith("    "):
        end += 1
    return lines[start:end]
