"""`spanlab data`: check and repair labelled files, and turn triples into text."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.messages import name_options
from spanlab.cli.options import ColumnsOption, QuietOption, TagSchemeOption, TaskArgument, split_columns
from spanlab.cli.output import note, print_json, print_table
from spanlab.cli.progress import InputProgress
from spanlab.errors import InputError

if TYPE_CHECKING:
    from spanlab.tasks.checking import DataReport, Finding

app = typer.Typer(help="Check and repair labelled files.", no_args_is_help=True)
_SHOWN = 50


@app.callback()
def _data() -> None:
    """Check and repair labelled files."""


@app.command("check")
def check(
    task: TaskArgument,
    file: Annotated[str, typer.Argument(metavar="FILE", help="Labelled file.")],
    train: Annotated[
        str | None, typer.Option(help="Training file, if FILE is a dev file: finds overlap and unseen labels.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="Model or tokenizer folder, to count tokens.", metavar="PATH")
    ] = None,
    length: Annotated[int, typer.Option(help="Maximum sequence length in tokens.")] = 512,
    columns: ColumnsOption = None,
    tag_scheme: TagSchemeOption = "auto",
    fix: Annotated[
        Path | None, typer.Option(help="Write the valid and the repaired examples to this file, as JSON lines.")
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help=f"Print every problem, not only the first {_SHOWN}.")] = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """List every problem of a labelled file with its line, and a summary.

    The exit code is 2 if training would refuse the file.

    Example: spanlab data check ner train.conll --fix repaired.jsonl
    """
    from spanlab.tasks.checking import check_file, fix_file
    from spanlab.tasks.config import TaskDataConfig
    from spanlab.tasks.formats.reading import count_rows
    from spanlab.tasks.table import find_task
    from spanlab.text import Tokenizer

    task_class = find_task(task)
    settings = TaskDataConfig(columns=split_columns(columns), tag_scheme=tag_scheme, length=length)
    loaded = None if tokenizer is None else Tokenizer.load(tokenizer)
    total = None if quiet else count_rows(file, task_class.shape, settings.columns)
    with InputProgress("data check", total, unit="examples", quiet=quiet) as progress:
        report = check_file(
            task_class, file, settings, train=train, tokenizer=loaded, on_row=lambda: progress.advance(1)
        )
    fixed = None if fix is None else fix_file(task_class, file, settings, fix)
    if as_json:
        result = report.to_dict()
        if fixed is not None:
            result["fix"] = {"written": fixed.written, "mended": fixed.repaired, "dropped": fixed.dropped}
        print_json(result)
    else:
        _print_report(report, show_all=show_all)
    if fixed is not None:
        dropped = ", ".join(f"{count} {problem}" for problem, count in fixed.dropped.items()) or "none"
        if fix is not None and not fixed.written:
            fix.unlink(missing_ok=True)
            raise InputError(f"no example can be kept; dropped: {dropped}", path=file, fix="correct the file itself")
        note(f"{fix}: {fixed.written} examples, {fixed.repaired} of them repaired; dropped: {dropped}")
    elif not report.clean:
        raise typer.Exit(2)


@app.command("verbalise")
def verbalise(
    triples: Annotated[Path, typer.Argument(metavar="TRIPLES", help="Triples: .tsv, .csv or .nt.")],
    out: Annotated[Path, typer.Option(help="Text file to write: a sentence a line, a document for each subject.")],
    templates: Annotated[
        Path | None, typer.Option(help="Lines of RELATION, a tab, and a sentence with {subject} and {object}.")
    ] = None,
) -> None:
    """Turn the facts of a knowledge graph into text to pre-train on.

    Example: spanlab data verbalise facts.tsv --out facts.txt
    """
    from spanlab.atomic_io import write_atomically
    from spanlab.corpus.triples import read_facts, read_templates, verbalise

    facts = read_facts(triples)
    documents = list(verbalise(facts, None if templates is None else read_templates(templates)))
    text = "\n\n".join("\n".join(sentences) for sentences in documents) + "\n"
    write_atomically(out, text.encode())
    note(f"{out}: {len(facts):,} facts about {len(documents):,} subjects")


def _print_report(report: "DataReport", *, show_all: bool) -> None:
    shown = report.findings if show_all else report.findings[:_SHOWN]
    for finding in shown:
        typer.echo(_line(report.path, finding))
    if len(shown) < len(report.findings):
        note(f"and {len(report.findings) - len(shown)} more; use --all to print them")
    rows = [("examples", str(report.examples)), ("problems", str(len(report.findings)))]
    rows += [(f"  {kind}", str(count)) for kind, count in report.kinds.items()]
    rows += [(f"label {label}", str(count)) for label, count in report.label_counts.items()]
    unit = "words" if report.over_limit is None else "tokens"
    rows.append(("longest", f"{report.longest} {unit}"))
    if report.over_limit is not None:
        share = 100 * report.over_limit / max(1, report.examples)
        rows.append(("over the limit", f"{report.over_limit} examples, {share:.1f} %"))
    print_table(rows, title=report.path)


def _line(path: str, finding: "Finding") -> str:
    location = path if finding.line is None else f"{path}:{finding.line}"
    line = f"{location}: {finding.kind}: {finding.cause}" + (f"; {finding.fix}" if finding.fix else "")
    return name_options(line, {"--columns", "--tag-scheme"})
