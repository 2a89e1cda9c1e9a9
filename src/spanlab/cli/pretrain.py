"""`spanlab pretrain`: pre-train a model on a prepared corpus, as a recipe says."""

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spanlab.cli.options import MODEL_HELP, Budget, check_budget, parse_budget
from spanlab.cli.output import conclude, note, note_download, print_json, print_table, resumable
from spanlab.cli.progress import RunDisplay
from spanlab.errors import InputError

if TYPE_CHECKING:
    from spanlab.workflows.pretrain import PretrainingJob
    from spanlab.workflows.run import RunResult


def pretrain(
    recipe: Annotated[str | None, typer.Argument(help="A recipe of the list below, or a YAML file.")] = None,
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings, such as size=mini training.steps=5000 masking.ratio=0.2."),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            "--data", help="Prepared corpus, DIR or DIR:WEIGHT, where DIR may be a URL; repeat to mix several."
        ),
    ] = None,
    out: Annotated[str | None, typer.Option("--out", help="Run folder to write.")] = None,
    init: Annotated[
        str | None,
        typer.Option("--init", help=f"{MODEL_HELP} with the initial weights, instead of random ones."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out; needs no other argument.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in --out.")] = False,
    budget: Budget = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option("--engine", help="On this machine (also within torchrun), or on a Ray cluster."),
    ] = "local",
    workers: Annotated[int, typer.Option("--workers", help="With --engine ray: number of workers.", min=1)] = 2,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Run two steps; print estimates of memory and time.")
    ] = False,
    print_config: Annotated[bool, typer.Option("--print-config", help="Print the resolved config and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Pre-train a model on a prepared corpus, from random weights or from a model.

    Examples:
      spanlab pretrain spanbert --data corpora/legal --out runs/legal size=mini
      spanlab pretrain spanbert --data corpora/legal --init bert-base-cased --out runs/legal training.steps=20000
      spanlab pretrain spanbert --data corpora/legal --out runs/legal size=mini --budget 20m
      spanlab pretrain spanbert --data s3://bucket/legal --out runs/legal size=mini
      spanlab pretrain --resume --out runs/legal
      torchrun --nproc-per-node 8 -m spanlab pretrain roberta --data corpora/web:3 --data corpora/books --out runs/big
    """
    from spanlab.pretraining.recipe import yaml_of

    job = _read_job(recipe, overrides or [], data or [], out, init, resume=resume, overwrite=overwrite)
    if print_config:
        typer.echo(yaml_of(job.recipe), nl=False)
        return
    _fetch(job)
    if dry_run:
        _estimate(job, as_json=as_json)
        return
    if not out:
        raise InputError("no run folder given", fix="use --out DIR")
    if budget is not None:
        job = _within(job, budget, overrides or [], engine)
    command = "spanlab pretrain" if engine == "local" else f"spanlab pretrain --engine ray --workers {workers}"
    with resumable(command, out):
        result = _run_locally(job) if engine == "local" else _run_on_ray(job, workers)
    conclude(result, command, as_json=as_json)


def _read_job(
    recipe: str | None,
    overrides: list[str],
    data: list[str],
    out: str | None,
    init: str | None,
    *,
    resume: bool,
    overwrite: bool,
) -> "PretrainingJob":
    """The job that the arguments describe; of a run to be resumed, the folder has what is not given."""
    from spanlab.pretraining.recipe import load_recipe
    from spanlab.recipes import shipped_recipes
    from spanlab.workflows.pretrain import PretrainingJob, resumed_job, resumed_recipe

    if resume and out:
        if recipe is None or "=" in recipe:  # without a recipe, the first setting is in its place
            return resumed_job(out, [*([recipe] if recipe else []), *overrides], data=data, init=init)
        return replace(resumed_job(out, data=data, init=init), recipe=resumed_recipe(out, recipe, overrides))
    if recipe is None:
        fix = f"name one of {', '.join(shipped_recipes())}, or a YAML file; --resume --out DIR needs none"
        raise InputError("no recipe given", fix=fix)
    settings = load_recipe(recipe, overrides)
    return PretrainingJob(
        recipe=settings, data=tuple(data), out=out or "", init=init, resume=resume, overwrite=overwrite
    )


def _fetch(job: "PretrainingJob") -> None:
    """Copy corpora at URLs to this machine, where they are not there yet, and say so."""
    from spanlab.corpus.object_store import is_url
    from spanlab.corpus.remote_corpus import local_copy
    from spanlab.pretraining.build import split_weight

    for name in job.data:
        corpus, _ = split_weight(name)
        if is_url(corpus):
            local_copy(corpus, note_download)


def _within(job: "PretrainingJob", budget: str, overrides: list[str], engine: str) -> "PretrainingJob":
    """The job with as many steps as fit into the budget."""
    check_budget(overrides, resume=job.resume)
    seconds = parse_budget(budget)
    if engine != "local":
        raise InputError("a budget is measured on this machine, not on a cluster", fix="set training.steps")
    from spanlab.training.run_folder import RunFolder
    from spanlab.workflows.budget import pretraining_within

    RunFolder(job.out).check(resume=False, overwrite=job.overwrite)  # before time is spent on measuring
    job = pretraining_within(job, seconds)
    note(f"{job.recipe.training.steps:,} steps fit into {budget}")
    return job


def _run_locally(job: "PretrainingJob") -> "RunResult":
    from spanlab.workflows.pretrain import run_job

    display = RunDisplay()
    with closing(display):
        return run_job(job, on_start=display.start, on_record=display.log)


def _run_on_ray(job: "PretrainingJob", workers: int) -> "RunResult":
    from spanlab.workflows.ray_training import run_on_ray

    note(f"training on {workers} Ray workers; see {job.out}/metrics.jsonl for progress")
    return run_on_ray(job, workers=workers)


def _estimate(job: "PretrainingJob", *, as_json: bool) -> None:
    from spanlab.workflows.dry_run import dry_run

    estimate = dry_run(job)
    if as_json:
        print_json(estimate.to_dict())
    else:
        print_table(estimate.rows(), title="dry run")
