"""`spanlab almanac`: the labelled passages that come with SpanLab, as files, in the terminal or as an HTML page."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.cli.options import TaskArgument
from spanlab.cli.output import print_json

app = typer.Typer(help="The labelled passages that come with SpanLab.", no_args_is_help=True)


@app.callback()
def _almanac() -> None:
    """The labelled passages that come with SpanLab."""


@app.command("export")
def export(
    task: TaskArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write, with one file per split and format.")],
    split: Annotated[str | None, typer.Option(help="train, dev or test; default: all three.")] = None,
    language: Annotated[str | None, typer.Option(help="en, zh or ko; default: all three.")] = None,
    format_: Annotated[
        str | None, typer.Option("--format", help="jsonl, or the standard format of the task; default: both.")
    ] = None,
    label: Annotated[str | None, typer.Option(help="For classification: topic (default) or sentiment.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write the passages as labelled files of a task.

    Standard formats: tsv (classification, similarity), conll (ner), squad (qa), conll2012 (coref), semeval
    (relation), summary (summarisation).

    Example: spanlab almanac export qa --out questions --language en
    """
    from spanlab.samples import load
    from spanlab.samples.export import Selection
    from spanlab.samples.export import export as write

    selection = Selection(split=split, language=language, format=format_, label=label)
    files = write(load(), task, out, selection, overwrite=overwrite)
    if as_json:
        print_json({"task": task, "files": {str(file.path): file.examples for file in files}})
        return
    for file in files:
        typer.echo(f"{file.path}: {file.examples} examples as {file.format}")


@app.command("show")
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="ID", help="Passage, such as en-science-01; default: list all.")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write an HTML page instead of printing.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing page.")] = False,
) -> None:
    """Show a passage with all its labels; without an ID, list all passages.

    Example: spanlab almanac show en-science-01 --html curie.html
    """
    from rich.console import Console

    from spanlab.samples import find, load
    from spanlab.samples.terminal import draw_passage, list_passages

    passages = load() if name is None else (find(name),)
    if html is not None:
        from spanlab.samples.html_page import write_page

        write_page(passages, html, overwrite=overwrite)
        typer.echo(str(html))
        return
    console = Console(highlight=False)
    picture = list_passages(passages) if name is None else draw_passage(passages[0], console.width)
    console.print(picture, soft_wrap=not console.is_terminal)
