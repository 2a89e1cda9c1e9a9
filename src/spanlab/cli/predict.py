"""`spanlab predict`: the results of a model for a file or for standard input."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from spanlab.cli.messages import name_options
from spanlab.cli.options import (
    ColumnsOption,
    DeviceOption,
    ModelArgument,
    PrecisionName,
    PrecisionOption,
    QuietOption,
    split_columns,
)
from spanlab.cli.output import note
from spanlab.cli.progress import InputProgress
from spanlab.errors import InputError
from spanlab.inference.writers import FORMATS, OutputFormat, add_clusters, find_format, format_of_file, write_beside

if TYPE_CHECKING:
    from spanlab.inference.output_file import OutputFile
    from spanlab.inference.predictor import PredictedPortion, Predictor
    from spanlab.inference.ray import RayPrediction
    from spanlab.tasks.formats.row import Row

_LISTED = 50
_TRIPLES = {".csv": "triples-csv", ".nt": "triples-nt"}


def predict(
    model: ModelArgument,
    source: Annotated[
        str,
        typer.Option(
            "--input", help="File in a training format, labels optional; - reads stdin: JSON lines, or a text a line."
        ),
    ] = "-",
    output: Annotated[
        Path | None, typer.Option(help="Write the results here, in the format that the name says.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="json, text, html, csv, tsv, parquet; ner: redacted, conll2003, brat; coref: resolved, conll2012, "
            "brat; qa: squad; relation: triples-csv, triples-nt, brat.",
            show_default="by the name of the output; text to the terminal",
        ),
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Task, if the model has several; a,b or all predicts several at once.")
    ] = None,
    columns: ColumnsOption = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="Maximum tokens per batch.")] = 16384,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an unfinished output.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="This machine, or a Ray cluster.")] = "local",
    workers: Annotated[int | None, typer.Option(min=1, help="Ray workers; default: one for each CPU.")] = None,
    device: DeviceOption = "auto",
    precision: PrecisionOption = None,
    redact: Annotated[bool, typer.Option("--redact", help="Write texts with entities replaced by labels.")] = False,
    resolve: Annotated[bool, typer.Option("--resolve", help="Write texts with pronouns replaced by names.")] = False,
    triples: Annotated[
        Path | None, typer.Option(help="Also write relations as triples with their sources: .csv or .nt.")
    ] = None,
    coref: Annotated[str | None, typer.Option(help="Coreference model that joins the entities of --triples.")] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with every result drawn.")] = None,
    skip_errors: Annotated[
        bool, typer.Option("--skip-errors", help="Leave out examples with errors, list them, and exit with 2.")
    ] = False,
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each input.")] = False,
) -> None:
    """Predict every example of a file, in order.

    An output is FILE.partial until it is complete; --resume continues one that was stopped. Its name says its format:
    .jsonl, .txt, .csv, .tsv, .parquet, .html; .conll (entities, coreference), .ann (brat, with the texts in a .txt),
    .nt (relations).

    Examples:
      spanlab predict run --input texts.txt --json
      spanlab predict run --input reviews.csv --columns body:text --output labels.csv --skip-errors
    """
    from spanlab.inference.load import load
    from spanlab.inference.output_file import describe_maker
    from spanlab.inference.predictor import row_with_context
    from spanlab.inference.ray import RayPrediction
    from spanlab.tasks.formats.reading import count_rows, read_rows
    from spanlab.tasks.formats.row import joint_shape

    with _open_output(output, resume=resume, overwrite=overwrite) as file:
        predictor = load(model, device=device, precision=precision)
        names, joint = _choose_tasks(predictor, task, source)
        if engine == "ray" and joint:
            raise InputError("--engine ray predicts one task at a time", fix=f"use --task {names[0]}")
        task_name = "several" if joint else predictor.model.tasks[names[0]].name
        output_format = _choose_format(task_name, output, format_, redact=redact, resolve=resolve)
        beside = [
            *_choose_texts(output_format, output, overwrite=overwrite),
            *_choose_triples(task_name, triples, coref, resume=resume, overwrite=overwrite),
            *_choose_page(html, resume=resume, overwrite=overwrite),
        ]
        shape = joint_shape([predictor.model.tasks[name].shape for name in names])
        column_names = split_columns(columns) or _remembered_columns(predictor, source, names)
        rows = read_rows(source, shape, column_names)
        if task == "all":
            rows = map(row_with_context, rows)
        skipped = _Skipped(source)
        if skip_errors:
            rows = skipped.leave_out(rows, predictor, names)
        if file is not None:
            resumable = output_format.record is not None and not beside
            made_by = describe_maker(predictor, names, output_format.name, batch_tokens)
            file.begin(made_by, model, resumable=resumable)
            rows = file.skip_done(rows)
        total, first = count_rows(source, shape, column_names), 0 if file is None else file.done
        with InputProgress("predict", total, first, quiet=quiet) as progress:
            if engine == "ray":
                # What auto has chosen here is the choice of every worker.
                chosen = None if precision is None else cast("PrecisionName", predictor.precision)
                job = RayPrediction(
                    model=str(Path(model).resolve()) if Path(model).exists() else model,  # workers may run elsewhere
                    task=names[0],
                    batch_tokens=batch_tokens,
                    device=device,
                    precision=chosen,
                )
                portions = _predict_on_ray(job, rows, progress, first, workers)
            else:
                portions = predictor.predict_portions(
                    rows, tasks=names, batch_tokens=batch_tokens, first=first, progress=progress.advance
                )
                portions = portions if joint else (portion.of_task(names[0]) for portion in portions)
            results: Any = _flat(portions) if file is None else file.keep_portions(portions)
            if coref is not None:
                results = add_clusters(results, load(coref, device=device, precision=precision))
            for other_format, path in beside:
                results = write_beside(other_format, results, path)
            if file is None:
                _print(output_format.texts(results, readable=not as_json and format_ is None), progress)
            else:
                count = file.write(output_format, results)
        if file is not None and not quiet:
            note(f"{output}: {count:,} results")
    skipped.conclude()


class _Skipped:
    """The errors of examples that are left out; told together at the end, so that no results are between them."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._first: list[InputError] = []
        self._count = 0

    def leave_out(
        self, rows: "Iterable[Row | InputError]", predictor: "Predictor", tasks: Sequence[str]
    ) -> "Iterator[Row]":
        """The rows without errors; raises where there are none."""
        usable = 0
        for row in predictor.predictable_rows(rows, tasks=tasks, on_error=self._add):
            usable += 1
            yield row
        if not usable:
            self._list()
            raise InputError(f"all {self._count:,} examples have errors", path=self._source, fix="correct those above")

    def _add(self, error: InputError) -> None:
        self._count += 1
        if len(self._first) < _LISTED:
            self._first.append(error)

    def _list(self) -> None:
        for error in self._first:
            note(name_options(f"spanlab: skipped: {error}", {"--columns"}))

    def conclude(self) -> None:
        """List the errors and end with exit code 2, if there are any."""
        if not self._count:
            return
        self._list()
        more = f", the first {_LISTED} of which are listed" if self._count > _LISTED else ""
        note(f"spanlab: {self._source}: {self._count:,} examples were left out{more}")
        raise typer.Exit(2)


def _choose_tasks(predictor: "Predictor", task: str | None, source: str) -> tuple[tuple[str, ...], bool]:
    """The names of the tasks, and whether their results are together in one record."""
    if task == "all":
        return predictor.names_for_file(source), True
    several = task is not None and "," in task
    return predictor.model.names_of(task.split(",") if task is not None and several else task), several


@contextmanager
def _open_output(output: Path | None, *, resume: bool, overwrite: bool) -> "Iterator[OutputFile | None]":
    """The output file, None for standard output; where it ends early, a note says what is kept."""
    from spanlab.inference.output_file import OutputFile

    if resume and overwrite:
        raise InputError("--resume and --overwrite exclude each other", fix="give one of them")
    if output is None or output == Path("-"):
        if resume:
            raise InputError("--resume continues a file", fix="name it by --output")
        yield None
        return
    with OutputFile(output, resume=resume, overwrite=overwrite) as file:
        try:
            yield file
        except BaseException as error:
            if file.kept and "--resume" not in str(error):
                note(f"{file.partial}: {file.kept:,} results are kept; continue with the same command and --resume")
            raise


def _remembered_columns(predictor: "Predictor", source: str, tasks: Sequence[str]) -> tuple[str, ...]:
    """The columns that the model was trained with, if the input has them."""
    columns = predictor.columns_for(source, tasks)
    for remark in predictor.remark_columns(source, columns):
        note(remark)
    return columns


def _predict_on_ray(
    job: "RayPrediction", rows: "Iterator[Row | InputError]", progress: InputProgress, first: int, workers: int | None
) -> "Iterator[PredictedPortion]":
    from spanlab.inference.ray import predict_on_ray

    for portion in predict_on_ray(job, rows, first=first, workers=workers):
        progress.advance(len(portion.rows))
        yield portion


def _flat(portions: "Iterator[PredictedPortion]") -> Iterator[Any]:
    return (result for portion in portions for result in portion.results)


def _print(texts: Iterator[str], progress: InputProgress) -> None:
    for text in texts:
        progress.hide()
        typer.echo(text, nl=False)
        sys.stdout.flush()


def _choose_format(task: str, output: Path | None, name: str | None, *, redact: bool, resolve: bool) -> OutputFormat:
    """The format that the options ask for, or else the name of the output."""
    if sum((name is not None, redact, resolve)) > 1:
        raise InputError("--format, --redact and --resolve exclude each other", fix="give one of them")
    if redact:
        return find_format("redacted", task, option="--redact")
    if resolve:
        return find_format("resolved", task, option="--resolve")
    is_file = output is not None and output != Path("-")
    chosen = find_format(name, task) if name else format_of_file(output, task) if is_file and output else FORMATS[0]
    if not is_file and (chosen.binary or chosen.beside):
        raise InputError(f"--format {chosen.name} is written to a file", fix="name it by --output")
    return chosen


def _choose_texts(
    output_format: OutputFormat, output: Path | None, *, overwrite: bool
) -> Iterator[tuple[OutputFormat, Path]]:
    """The format and the name of the second file of a format that needs one."""
    if output_format.beside is None or output is None:
        return
    path = output.with_suffix(".txt")
    if path == output:
        raise InputError("the texts are written beside it as .txt", path=output, fix="use a name that ends in .ann")
    if path.exists() and not overwrite:
        raise InputError("file exists", path=path, fix="use --overwrite, or choose another --output")
    yield OutputFormat(f"{output_format.name} texts", output_format.tasks, write=output_format.beside), path


def _choose_triples(
    task: str, triples: Path | None, coref: str | None, *, resume: bool, overwrite: bool
) -> Iterator[tuple[OutputFormat, Path]]:
    """The format and file of `--triples`; raises before anything is computed if triples cannot be written."""
    if triples is None:
        if coref is not None:
            raise InputError("--coref joins the entities of triples", fix="add --triples FILE.csv or FILE.nt")
        return
    if triples.suffix.lower() not in _TRIPLES:
        raise InputError(
            "triples are written as .csv or .nt", path=triples, fix="use a file name that ends in one of these"
        )
    beside = find_format(_TRIPLES[triples.suffix.lower()], task, option="--triples")
    if resume:
        raise InputError("--triples needs the results of all inputs", fix="leave out --resume")
    if triples.exists() and not overwrite:
        raise InputError("file exists", path=triples, fix="use another --triples, or --overwrite")
    yield beside, triples


def _choose_page(html: Path | None, *, resume: bool, overwrite: bool) -> Iterator[tuple[OutputFormat, Path]]:
    """The format and file of `--html`; raises before anything is computed if the page cannot be written."""
    if html is None:
        return
    if resume:
        raise InputError("--html needs the results of all inputs", fix="leave out --resume")
    if html.exists() and not overwrite:
        raise InputError("file exists", path=html, fix="use another --html, or --overwrite")
    yield find_format("html", "", option="--html"), html
