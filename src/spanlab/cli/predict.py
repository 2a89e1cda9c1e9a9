"""`spanlab predict`: a model's results on a file or on standard input."""

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spanlab.cli.output import note
from spanlab.errors import InputError

if TYPE_CHECKING:
    from spanlab.tasks.result import Result


def predict(
    model: Annotated[str, typer.Argument(help="Model folder, run folder or Hugging Face id.")],
    source: Annotated[
        str, typer.Option("--input", help="File as for training, labels not needed; - reads JSON lines.")
    ] = "-",
    output: Annotated[Path | None, typer.Option(help="Write JSON lines here.")] = None,
    task: Annotated[str | None, typer.Option(help="Which task, where the model has several.")] = None,
    columns: Annotated[
        str | None, typer.Option(help="Fields of a table without header, such as _,label,_,text.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="The most tokens computed at once.")] = 16384,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an output that was not finished.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the model runs.")] = "auto",
    redact: Annotated[bool, typer.Option("--redact", help="Give the text with its entities replaced instead.")] = False,
    triples: Annotated[
        Path | None, typer.Option(help="Also write relations as triples with their sources: .csv or .nt.")
    ] = None,
    coref: Annotated[str | None, typer.Option(help="Model whose clusters join the entities of --triples.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object an input.")] = False,
) -> None:
    """Predict for every example of a file, in its order.

    Example: spanlab predict run --input texts.txt --json
    """
    from spanlab.inference.load import load
    from spanlab.tasks.formats.reading import read_rows

    done = _prepare(output, resume=resume, overwrite=overwrite)
    predictor = load(model, device=device)
    name = predictor.model.name_of(task)
    if redact and predictor.model.tasks[name].name != "ner":
        raise InputError(f"--redact is for entities, and the task is {predictor.model.tasks[name].name}", path=model)
    _check_triples(triples, coref, predictor.model.tasks[name].name, resume=resume, overwrite=overwrite)
    shape = predictor.model.tasks[name].shape
    rows = islice(read_rows(source, shape, columns.split(",") if columns else ()), done, None)
    results = predictor.predict_rows(rows, task=name, batch_tokens=batch_tokens, first=done)
    if triples is not None:
        from spanlab.workflows.triples import keep_triples

        results = keep_triples(results, triples, None if coref is None else load(coref, device=device))
    told = map(_redacted, results) if redact else (result.to_dict() for result in results)
    if output is not None:
        _write(told, output, done)
        return
    for values in told:
        typer.echo(json.dumps(values, ensure_ascii=False) if as_json else _line(values))
        sys.stdout.flush()


def _check_triples(triples: Path | None, coref: str | None, task: str, *, resume: bool, overwrite: bool) -> None:
    """Refuse what cannot become triples before anything is computed."""
    if triples is None:
        if coref is not None:
            raise InputError("--coref joins the entities of triples", fix="give --triples FILE.csv or FILE.nt, too")
        return
    if task != "relation":
        raise InputError(f"--triples is for relations, and the task is {task}")
    if resume:
        raise InputError("--triples needs the results of all inputs", fix="leave --resume out")
    if triples.exists() and not overwrite:
        raise InputError("is there already", path=triples, fix="choose another --triples, or --overwrite")


def _redacted(result: "Result") -> dict[str, Any]:
    """The text without its entities, and nothing that would tell them."""
    from spanlab.tasks.entities import NerResult

    assert isinstance(result, NerResult)
    return {"id": result.id, "windows": result.windows, "truncated": result.truncated, "text": result.redacted()}


def _prepare(output: Path | None, *, resume: bool, overwrite: bool) -> int:
    """How many results an output holds already; a last line that was cut off is taken away."""
    if output is None or not output.exists():
        return 0
    if not resume and not overwrite:
        raise InputError("is there already", path=output, fix="go on with --resume, or replace it with --overwrite")
    if overwrite:
        output.unlink()
        return 0
    data = output.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    output.write_bytes(whole)
    return whole.count(b"\n")


def _write(results: Iterator[dict[str, Any]], output: Path, done: int) -> None:
    written = 0
    with output.open("a", encoding="utf-8", newline="\n") as file:
        for values in results:
            file.write(json.dumps(values, ensure_ascii=False) + "\n")
            written += 1
    note(f"{output}: {done + written} results")


def _line(values: dict[str, Any]) -> str:
    """A result for a reader: its id and what it says."""
    shown = {name: value for name, value in values.items() if name not in {"id", "windows", "scores", "nbest"}}
    if not values["truncated"]:
        shown.pop("truncated")
    return f"{values['id']}\t" + "\t".join(_shown(name, value) for name, value in shown.items())


def _shown(name: str, value: object) -> str:
    if isinstance(value, float):
        return f"{name}={value:.4f}"
    return f"{name}={value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
