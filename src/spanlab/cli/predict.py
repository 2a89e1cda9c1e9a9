"""`spanlab predict`: a model's results on a file or on standard input."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spanlab.cli.columns import ColumnsOption, split_columns
from spanlab.cli.predictions import prepare_output, tell, told, write_conll
from spanlab.cli.together import answers_together
from spanlab.errors import InputError

if TYPE_CHECKING:
    from spanlab.tasks.formats.row import Row
    from spanlab.tasks.result import Result
    from spanlab.training.config import Device


def predict(
    model: Annotated[str, typer.Argument(help="Model folder, run folder or Hugging Face id.")],
    source: Annotated[
        str, typer.Option("--input", help="File as for training, labels not needed; - reads JSON lines.")
    ] = "-",
    output: Annotated[Path | None, typer.Option(help="Write JSON lines here.")] = None,
    task: Annotated[
        str | None, typer.Option(help="Which task, where the model has several; a,b or all answers them together.")
    ] = None,
    columns: ColumnsOption = None,
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

    predictor = load(model, device=device)
    together = task is not None and (task == "all" or "," in task)
    name = "" if together else predictor.model.name_of(task)
    kind = "several" if together else predictor.model.tasks[name].name
    _refuse_other_tasks(kind, model, redact=redact, resolve=resolve, triples=triples is not None)
    _check_triples(triples, coref, resume=resume, overwrite=overwrite)
    done = prepare_output(output, resume=resume, overwrite=overwrite)
    if task is not None and together:
        several = answers_together(predictor, task, source, columns, batch_tokens=batch_tokens, done=done)
        tell(several, output, done, as_json=as_json)
        return
    chosen = predictor.model.tasks[name]
    rows = islice(read_rows(source, chosen.shape, split_columns(columns)), done, None)
    if engine == "local":
        results = predictor.predict_rows(rows, task=name, batch_tokens=batch_tokens, first=done)
    else:
        results = _on_ray(model, name, device, rows, batch_tokens=batch_tokens, first=done, workers=workers)
    if triples is not None:
        from spanlab.workflows.triples import write_triples

        results = write_triples(results, triples, None if coref is None else load(coref, device=device))
    if chosen.name == "coref" and output is not None and output.suffix == ".conll":
        write_conll(results, output, resume=resume)
        return
    tell(map(told(redact=redact, resolve=resolve), results), output, done, as_json=as_json)


def _refuse_other_tasks(task: str, model: str, *, redact: bool, resolve: bool, triples: bool) -> None:
    """Refuse what only one task can be asked for."""
    for asked, option, what, wanted in (
        (redact, "--redact", "entities", "ner"),
        (resolve, "--resolve", "coreference", "coref"),
        (triples, "--triples", "relations", "relation"),
    ):
        if asked and task != wanted:
            raise InputError(f"{option} is for {what}, and the task is {task}", path=model)


def _check_triples(triples: Path | None, coref: str | None, *, resume: bool, overwrite: bool) -> None:
    """Refuse what cannot become triples before anything is computed."""
    if triples is None:
        if coref is not None:
            raise InputError("--coref joins the entities of triples", fix="give --triples FILE.csv or FILE.nt, too")
        return
    if resume:
        raise InputError("--triples needs the results of all inputs", fix="leave --resume out")
    if triples.exists() and not overwrite:
        raise InputError("is there already", path=triples, fix="choose another --triples, or --overwrite")


def _on_ray(
    model: str,
    task: str,
    device: "Device",
    rows: "Iterator[Row | InputError]",
    *,
    batch_tokens: int,
    first: int,
    workers: int | None,
) -> "Iterator[Result]":
    """The same results by workers of a cluster."""
    from spanlab.inference.ray import RayPrediction, predict_on_ray

    # A folder by its whole path: a worker need not run where the command was given.
    folder = str(Path(model).resolve()) if Path(model).exists() else model
    wanted = RayPrediction(model=folder, task=task, batch_tokens=batch_tokens, device=device)
    return predict_on_ray(wanted, rows, first=first, workers=workers)
