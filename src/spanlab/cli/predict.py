"""`spanlab predict`: a model's results on a file or on standard input."""

import json
import sys
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from spanlab.cli.output import note
from spanlab.cli.together import answers_together
from spanlab.errors import InputError

if TYPE_CHECKING:
    from spanlab.tasks.result import Result


def predict(
    model: Annotated[str, typer.Argument(help="Model folder, run folder or Hugging Face id.")],
    source: Annotated[
        str, typer.Option("--input", help="File as for training, labels not needed; - reads JSON lines.")
    ] = "-",
    output: Annotated[Path | None, typer.Option(help="Write JSON lines here.")] = None,
    task: Annotated[
        str | None, typer.Option(help="Which task, where the model has several; a,b or all answers them together.")
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="Fields of a table without header, such as _,label,_,text.")
    ] = None,
    batch_tokens: Annotated[int, typer.Option(min=1, help="The most tokens computed at once.")] = 16384,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with an output that was not finished.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output.")] = False,
    engine: Annotated[Literal["local", "ray"], typer.Option(help="Here, or on a Ray cluster.")] = "local",
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --engine ray: how many; one a CPU by default.")
    ] = None,
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Where the model runs.")] = "auto",
    redact: Annotated[bool, typer.Option("--redact", help="Give the text with its entities replaced instead.")] = False,
    resolve: Annotated[
        bool, typer.Option("--resolve", help="Give the text with its pronouns resolved instead.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object an input.")] = False,
) -> None:
    """Predict for every example of a file, in its order.

    Example: spanlab predict run --input texts.txt --json
    """
    from spanlab.inference.load import load
    from spanlab.tasks.formats.reading import read_rows

    done = _prepare(output, resume=resume, overwrite=overwrite)
    predictor = load(model, device=device)
    if task is not None and (task == "all" or "," in task):
        if redact:
            raise InputError("--redact is for one task", path=model, fix="name the task that finds entities")
        several = answers_together(predictor, task, source, columns, batch_tokens=batch_tokens, done=done)
        _tell(several, output, done, as_json=as_json)
        return
    name = predictor.model.name_of(task)
    kind = predictor.model.tasks[name].name
    if redact and kind != "ner":
        raise InputError(f"--redact is for entities, and the task is {kind}", path=model)
    if resolve and kind != "coref":
        raise InputError(f"--resolve is for coreference, and the task is {kind}", path=model)
    shape = predictor.model.tasks[name].shape
    rows = islice(read_rows(source, shape, columns.split(",") if columns else ()), done, None)
    if engine == "local":
        results = predictor.predict_rows(rows, task=name, batch_tokens=batch_tokens, first=done)
    else:
        from spanlab.inference.ray_prediction import RayPrediction, predict_on_ray

        wanted = RayPrediction(model=_everywhere(model), task=name, batch_tokens=batch_tokens, device=device)
        results = predict_on_ray(wanted, rows, first=done, workers=workers)
    if kind == "coref" and output is not None and output.suffix == ".conll":
        _write_conll(results, output, resume=resume)
        return
    _tell(map(_told(redact=redact, resolve=resolve), results), output, done, as_json=as_json)


def _tell(told: Iterator[dict[str, Any]], output: Path | None, done: int, *, as_json: bool) -> None:
    """Results into a file, or one by one on standard output."""
    if output is not None:
        _write(told, output, done)
        return
    for values in told:
        typer.echo(json.dumps(values, ensure_ascii=False) if as_json else _line(values))
        sys.stdout.flush()


def _everywhere(model: str) -> str:
    """A folder by its whole path: a worker need not run where the command was given."""
    return str(Path(model).resolve()) if Path(model).exists() else model


def _told(*, redact: bool, resolve: bool) -> Callable[["Result"], dict[str, Any]]:
    """What is given of a result."""
    if redact:
        return _redacted
    return _resolved if resolve else lambda result: result.to_dict()


def _resolved(result: "Result") -> dict[str, Any]:
    """The text with its pronouns replaced."""
    from spanlab.tasks.clusters import CorefResult

    assert isinstance(result, CorefResult)
    return {"id": result.id, "windows": result.windows, "truncated": result.truncated, "text": result.resolved()}


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


def _write_conll(results: Iterator["Result"], output: Path, *, resume: bool) -> None:
    """Documents in CoNLL-2012's columns."""
    from spanlab.tasks.clusters import CorefResult

    if resume:
        raise InputError("--resume is for JSON lines", path=output, fix="name the output .jsonl")
    written = 0
    with output.open("w", encoding="utf-8", newline="\n") as file:
        for result in results:
            assert isinstance(result, CorefResult)
            file.write(result.to_conll())
            written += 1
    note(f"{output}: {written} documents")


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
