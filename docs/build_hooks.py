"""MkDocs hooks of `make docs`: the command reference, generated from the commands, and formulas as MathML.

Browsers render MathML natively, so the pages need no script and no network.
"""

import inspect
import re
from collections.abc import Iterator
from html import unescape

import typer.main
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.core import TyperArgument, TyperCommand, TyperGroup

from spanlab.cli.main import app

COMMANDS = "reference/commands.md"
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(?P<tex>.*?)\\[)\]]</\1>', re.DOTALL)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated page."""
    files.append(File.generated(config, COMMANDS, content=commands_page()))
    return files


def on_page_content(html: str, **_: object) -> str:
    """Turn the formulas of a page into MathML."""
    return _FORMULA.sub(_mathml, html)


def _mathml(match: re.Match[str]) -> str:
    whole_line = match[2] == "["
    formula = convert(unescape(match["tex"]), display="block" if whole_line else "inline")
    return f"<p>{formula}</p>" if whole_line else formula


def commands_page() -> str:
    """Every command with its help, examples, arguments and options."""
    main = typer.main.get_command(app)
    assert isinstance(main, TyperGroup)
    parts = ["# Commands", "This page is generated from the commands; `spanlab COMMAND --help` shows the same."]
    parts += [
        "Exit codes: 0 success, 2 invalid input (one line says where and how to fix it), 130 Ctrl-C, 1 any other error."
    ]
    for name, command in sorted(leaves(main)):
        parts += list(_command(name, command))
    return "\n\n".join(parts) + "\n"


def leaves(group: TyperGroup, path: tuple[str, ...] = ()) -> Iterator[tuple[str, TyperCommand]]:
    """All commands (not groups), by their full names."""
    for name, inner in group.commands.items():
        if isinstance(inner, TyperGroup):
            yield from leaves(inner, (*path, name))
        elif isinstance(inner, TyperCommand):
            yield " ".join((*path, name)), inner


def _command(name: str, command: TyperCommand) -> Iterator[str]:
    yield f"## spanlab {name}"
    description, *examples = re.split(r"^Examples?:", inspect.cleandoc(command.help or ""), flags=re.MULTILINE)
    yield description.strip()
    lines = [line.strip() for part in examples for line in part.splitlines() if line.strip()]
    yield "```bash\n" + "\n".join(lines) + "\n```"
    rows = ["| argument or option | description |", "|---|---|"]
    rows += [_row(parameter) for parameter in command.params if parameter.name != "help"]
    yield "\n".join(rows)


def _row(parameter: object) -> str:
    assert hasattr(parameter, "opts")
    name = (
        (parameter.metavar or str(parameter.name))
        if isinstance(parameter, TyperArgument)
        else ", ".join(parameter.opts)
    )
    description = (getattr(parameter, "help", None) or "").replace("|", "\\|").replace("[", "\\[")
    return f"| `{name}` | {description}{_default(parameter)} |"


def _default(parameter: object) -> str:
    default = getattr(parameter, "default", None)
    if getattr(parameter, "required", False):
        return " Required."
    plain = isinstance(default, str | int | float) and not isinstance(default, bool)
    return f" Default: `{default}`." if plain and default != "" else ""
