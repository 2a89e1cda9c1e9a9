"""`spanlab predict`: the results of a model for a file or for standard input."""

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from spanlab.cli.options import ColumnsOption, DeviceOption, ModelArgument, split_columns
from spanlab.cli.output import note
from spanlab.errors import InputError
from spanlab.inference.writers import OutputFormat, add_clusters, count_lines, find_format, write_beside, write_file

_TRIPLES = {".csv": "triples-csv", ".nt": "triples-nt"}


def predict(
    model: ModelArgument,
    source: Annotated[
        str, typer.Option("--input", help="File in a training format, labels optional; - reads JSON lines from stdin.")
    ] = "-",
    output: Annotated[Path | None, typer.Option(help="Write the results here, as JSON lines by default.")] = None,
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="json, text; ner: redacted, conll2003; coref: resolved, conll2012; qa: squad; relation: triples-csv, "
            "triples-nt.",
            show_default="json to files, text to the terminal",
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
    redact: Annotated[bool, typer.Option("--redact", help="Write texts with entities replaced by labels.")] = False,
    resolve: Annotated[bool, typer.Option("--resolve", help="Write texts with pronouns replaced by names.")] = False,
    triples: Annotated[
        Path | None, typer.Option(help="Also write relations as triples with their sources: .csv or .nt.")
    ] = None,
    coref: Annotated[str | None, typer.Option(help="Coreference model that joins the entities of --triples.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each input.")] = False,
) -> None:
    """Predict every example of a file, in order.

    Example: spanlab predict run --input texts.txt --json
    """
    from spanlab.inference.load import load
    from spanlab.tasks.formats.reading import read_rows
    from spanlab.tasks.formats.row import joint_shape

    predictor = load(model, device=device)
    joint = task is not None and (task == "all" or "," in task)
    names = predictor.model.names_of(task.split(",") if task is not None and "," in task else task)
    task_name = "several" if joint else predictor.model.tasks[names[0]].name
    output_format = _choose_format(task_name, output, format_, redact=redact, resolve=resolve)
    beside = _choose_triples(task_name, triples, coref, resume=resume, overwrite=overwrite)
    done = _results_before(output, output_format, resume=resume, overwrite=overwrite)
    shape = joint_shape([predictor.model.tasks[name].shape for name in names])
    rows = islice(read_rows(source, shape, split_columns(columns)), done, None)
    results: Any
    if joint:
        results = predictor.predict_together(rows, tasks=names, batch_tokens=batch_tokens, first=done)
    elif engine == "ray":
        from spanlab.inference.ray import RayPrediction, predict_on_ray

        # Workers may run elsewhere: a folder by its absolute path.
        folder = str(Path(model).resolve()) if Path(model).exists() else model
        job = RayPrediction(model=folder, task=names[0], batch_tokens=batch_tokens, device=device)
        results = predict_on_ray(job, rows, first=done, workers=workers)
    else:
        results = predictor.predict_rows(rows, task=names[0], batch_tokens=batch_tokens, first=done)
    if beside is not None and triples is not None:
        results = add_clusters(results, load(coref, device=device)) if coref is not None else results
        results = write_beside(beside, results, triples)
    if output is not None:
        note(f"{output}: {write_file(output_format, results, output, done=done)} results")
        return
    for text in output_format.texts(results, readable=not as_json and format_ is None):
        typer.echo(text, nl=False)
        sys.stdout.flush()


def _choose_format(task: str, output: Path | None, name: str | None, *, redact: bool, resolve: bool) -> OutputFormat:
    """The format that the options ask for; by default JSON lines, and CoNLL-2012 for coreference to a .conll file."""
    if sum((name is not None, redact, resolve)) > 1:
        raise InputError("--format, --redact and --resolve exclude each other", fix="give one of them")
    if redact:
        return find_format("redacted", task, option="--redact")
    if resolve:
        return find_format("resolved", task, option="--resolve")
    to_conll = task == "coref" and output is not None and output.suffix == ".conll"
    return find_format(name or ("conll2012" if to_conll else "json"), task)


def _choose_triples(
    task: str, triples: Path | None, coref: str | None, *, resume: bool, overwrite: bool
) -> OutputFormat | None:
    """The format of `--triples`; raises before anything is computed if triples cannot be written."""
    if triples is None:
        if coref is not None:
            raise InputError("--coref joins the entities of triples", fix="add --triples FILE.csv or FILE.nt")
        return None
    if triples.suffix.lower() not in _TRIPLES:
        raise InputError(
            "triples are written as .csv or .nt", path=triples, fix="use a file name that ends in one of these"
        )
    beside = find_format(_TRIPLES[triples.suffix.lower()], task, option="--triples")
    if resume:
        raise InputError("--triples needs the results of all inputs", fix="leave out --resume")
    if triples.exists() and not overwrite:
        raise InputError("file exists", path=triples, fix="use another --triples, or --overwrite")
    return beside


def _results_before(output: Path | None, output_format: OutputFormat, *, resume: bool, overwrite: bool) -> int:
    """The number of results in the output to resume; raises where it exists and must not be replaced."""
    if resume and output_format.record is None:
        raise InputError("--resume is for JSON lines", path=output, fix="use --overwrite, or another format")
    if output is None or not output.exists() or overwrite:
        return 0
    if not resume:
        raise InputError("file exists", path=output, fix="use --overwrite or --resume")
    return count_lines(output)
