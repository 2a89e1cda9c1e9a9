"""`spanlab compare`: several recipes, or finished models, on the same tasks, with statistics."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spanlab.cli.output import note, print_columns, print_json
from spanlab.cli.progress import RunDisplay
from spanlab.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from spanlab.compare.config import Study
    from spanlab.compare.results import StudyResults


def compare(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RECIPE… KEY=VALUE…",
            help="Recipes, the baseline first, and settings that all of them share, such as size=tiny.",
            show_default=False,
        ),
    ] = None,
    study: Annotated[
        str | None, typer.Option("--study", help="A ready study of the list below, or a YAML file.")
    ] = None,
    models: Annotated[
        bool, typer.Option("--models", help="The names are finished models; each task is NAME=TEST.")
    ] = False,
    data: Annotated[
        list[str] | None,
        typer.Option("--data", help="Prepared corpus, DIR or DIR:WEIGHT; VARIANT=DIR is for one recipe of a study."),
    ] = None,
    task: Annotated[
        list[str] | None,
        typer.Option(
            "--task", help="NAME=TRAIN:DEV[:TEST], NAME a task, or such as qa-squad; repeat for several tasks."
        ),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", help="KEY=V1,V2: a recipe for each value; repeat for every combination."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", help="Of each pre-training: 10m, '20M tokens' or '3e15 FLOPs'."),
    ] = None,
    seeds: Annotated[str | None, typer.Option("--seeds", help="How many, or a list: 5,7,11. By default 3.")] = None,
    finetuning: Annotated[
        list[str] | None,
        typer.Option("--finetuning", help="KEY=VALUE for fine-tuning, such as training.epochs=2."),
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", help="CPU threads of each run.", min=1)] = None,
    out: Annotated[str | None, typer.Option("--out", help="Folder of the study.")] = None,
    engine: Annotated[
        Literal["local", "ray"], typer.Option("--engine", help="One run after another here, or as tasks of Ray.")
    ] = "local",
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Pre-train by several recipes with the same seeds and budget, fine-tune each, and say what is better and how sure.

    Every recipe is compared with the first. The folder has report.html, results.json and table.md; after an
    interruption, the same command continues where it stopped.

    Examples:
      spanlab compare bert spanbert size=tiny --data corpus --task ner=train.conll:dev.conll:test.conll --out study
      spanlab compare --study span-length --data corpus --task qa=train.json:dev.json:test.json --seeds 5 --out lengths
      spanlab compare spanbert size=tiny --grid masking.ratio=0.15,0.3 --data corpus --task ner=a.conll:b.conll --out p
      spanlab compare --models runs/a runs/b --task ner=test.conll --out a-and-b
    """
    if not out:
        raise InputError("no folder given", fix="use --out DIR")
    recipes = [name for name in names or () if "=" not in name]
    settings = [name for name in names or () if "=" in name]
    if models:
        others = {"--study": study, "--data": data, "--grid": grid, "--budget": budget, "--seeds": seeds}
        _refuse_with_models({**others, "--finetuning": finetuning, "KEY=VALUE": settings})
        results = _compare_models(recipes, task or [], out)
    else:
        from spanlab.compare.config import load_study

        described = load_study(
            study,
            recipes=recipes,
            settings=settings,
            grid=grid or (),
            data=data or (),
            tasks=task or (),
            finetuning=finetuning or (),
            budget=budget,
            seeds=seeds,
            threads=threads,
        )
        results = _run(described, out, engine)
    _print(results, out, as_json=as_json)


def _refuse_with_models(options: "Mapping[str, object]") -> None:
    given = next((option for option, value in options.items() if value), None)
    if given is not None:
        raise InputError(f"{given} is for recipes, and finished models are compared as they are", fix="leave it out")


def _compare_models(models: list[str], tasks: list[str], out: str) -> "StudyResults":
    from spanlab.compare.models import compare_models, parse_test_set

    return compare_models(models, [parse_test_set(task) for task in tasks], out, say=note)


def _run(study: "Study", out: str, engine: Literal["local", "ray"]) -> "StudyResults":
    from spanlab.compare.run import StudyEvents, run_study

    display = RunDisplay()
    events = StudyEvents(say=note, on_start=display.start, on_record=display.log, on_end=display.close)
    try:
        return run_study(study, out, engine=engine, events=events)
    except (KeyboardInterrupt, SystemExit):
        note("the same command continues where it stopped")
        raise


def _print(results: "StudyResults", out: str, *, as_json: bool) -> None:
    """Print the sentence and the tables."""
    from spanlab.compare.report import PAGE, score_tables
    from spanlab.compare.sentence import sum_up

    for remark in results.remarks:
        note(remark)
    for cell in results.failed:
        note(f"failed: {cell.recipe}, seed {cell.seed}, {cell.task or 'pre-training'}: {cell.error}")
    if as_json:
        print_json({"sentence": sum_up(results), **results.to_dict()})
    else:
        typer.echo(sum_up(results))
        for table in score_tables(results):
            print_columns(table.head, table.rows, title=table.title)
    note(f"report: {Path(out) / PAGE}")
