"""`spanlab finetune`: a labelled file and a model become a fine-tuned model."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.options import MODEL_HELP, Budget, check_budget, parse_budget
from spanlab.cli.output import conclude, note, print_json, print_table, resumable
from spanlab.cli.progress import RunDisplay
from spanlab.errors import InputError

if TYPE_CHECKING:
    from spanlab.training.records import Record
    from spanlab.workflows.finetune import FinetuningJob
    from spanlab.workflows.run import RunResult

COMMAND = "spanlab finetune"


def finetune(
    out: Annotated[Path, typer.Option(help="Run folder to write.")],
    task: Annotated[
        str | None,
        typer.Argument(help="A task of the list below."),
    ] = None,
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings, such as training.epochs=3.")
    ] = None,
    model: Annotated[str | None, typer.Option(help=f"{MODEL_HELP}.")] = None,
    train: Annotated[
        str | None,
        typer.Option(
            help="Labelled training file, or two that are aligned by line: train.en,train.de; for multitask the YAML "
            "list of tasks."
        ),
    ] = None,
    dev: Annotated[str | None, typer.Option(help="Labelled file on which the best model is chosen.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings; KEY=VALUE overrides it.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in --out; needs no other argument.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    budget: Budget = None,
    sweep: Annotated[
        bool, typer.Option("--sweep", help="Try a grid of learning rates around that of the width.")
    ] = False,
    add: Annotated[
        bool, typer.Option("--add", help="Add the task to a model, as name=NAME; its other tasks stay as they are.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check everything and run a few steps; print an estimate of the time.")
    ] = False,
    print_config: Annotated[
        bool, typer.Option("--print-config", help="Print the settings as the run would have them, and exit.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Fine-tune a model for a task.

    The best model on dev is written to model/ in the run folder; `spanlab predict` and `spanlab evaluate` take it.

    Examples:
      spanlab finetune classification --model bert --train train.tsv --dev dev.tsv --out run training.epochs=3
      spanlab finetune --resume --out run
    """
    from spanlab.config import to_mapping

    if resume and task is not None and "=" in task:  # without a task, the first setting is in its place
        overrides, task = [task, *(overrides or [])], None
    files = {"model": model, "train": train, "dev": dev}
    job = replace(_read_job(task, files, str(out), config, overrides, add=add, resume=resume), overwrite=overwrite)
    if print_config:
        import yaml

        typer.echo(yaml.safe_dump(to_mapping(job.chosen_config()), sort_keys=False, allow_unicode=True), nl=False)
    elif dry_run:
        _dry_run(job, as_json=as_json)
    elif sweep:
        _sweep(job, as_json=as_json)
    else:
        job = job if budget is None else _within(job, budget, overrides or [])
        with resumable(COMMAND, job.out):
            result = _run(job)
        conclude(result, COMMAND, as_json=as_json)


def _read_job(
    task: str | None,
    files: Mapping[str, str | None],
    out: str,
    config: Path | None,
    overrides: Sequence[str] | None,
    *,
    add: bool,
    resume: bool,
) -> "FinetuningJob":
    """The job that the arguments describe; of a run to be resumed, the folder has what is not given."""
    from spanlab.config import Source, merge, parse_overrides, read_yaml
    from spanlab.finetuning.config import resolve_run_config
    from spanlab.finetuning.defaults import unset_settings
    from spanlab.workflows.finetune import FinetuningJob, resumed_job

    mapping, source = read_yaml(config) if config is not None else ({}, Source())
    changes = merge(mapping, parse_overrides(overrides or []))
    name = str(changes.pop("name", task)) if add else None
    if resume:
        return resumed_job(out, changes, source, task=task, add_as=name, **files)
    model, train = files["model"], files["train"]
    if task is None or model is None or train is None:
        missing = "task" if task is None else "--model" if model is None else "--train"
        fix = "write spanlab finetune TASK --model MODEL --train FILE --dev FILE --out DIR"
        raise InputError(f"no {missing} given", fix=f"{fix}; only --resume --out DIR needs none")
    return FinetuningJob(
        task=task,
        model=model,
        train=train,
        dev=files["dev"],
        add_as=name,
        config=resolve_run_config(task, changes, source),
        unset=unset_settings(changes),
        out=out,
    )


def _within(job: "FinetuningJob", budget: str, overrides: Sequence[str]) -> "FinetuningJob":
    """The job with no more steps than fit into the budget."""
    check_budget(overrides, resume=job.resume)
    seconds = parse_budget(budget)
    from spanlab.training.run_folder import RunFolder
    from spanlab.workflows.budget import finetuning_within

    RunFolder(job.out).check(resume=False, overwrite=job.overwrite)  # before time is spent on measuring
    limited = finetuning_within(job, seconds)
    if limited is job:
        note(f"the whole run fits into {budget}")
    else:
        note(f"{limited.config.training.steps:,} steps fit into {budget}")
    return limited


def _dry_run(job: "FinetuningJob", *, as_json: bool) -> None:
    from spanlab.workflows.dry_run import finetuning_dry_run

    estimate = finetuning_dry_run(job)
    if as_json:
        print_json(estimate.to_dict())
        return
    for line in estimate.notes:
        note(line)
    print_table(estimate.rows(), title="dry run")


def _run(job: "FinetuningJob") -> "RunResult":
    from spanlab.workflows.finetune import run_job

    display = RunDisplay()
    with closing(display):
        return run_job(job, on_start=display.start, on_record=display.log)


def _sweep(job: "FinetuningJob", *, as_json: bool) -> None:
    from spanlab.cli.progress import describe
    from spanlab.workflows.finetune import sweep

    def report(lr: float, record: "Record") -> None:
        if record.split == "dev":
            note(f"lr {lr:g}, step {record.step:,}: {describe(record.metrics)}")

    try:
        outcomes = sweep(job, on_record=report)
    except (KeyboardInterrupt, SystemExit):
        note("a sweep cannot be resumed; start over with the same command and --overwrite")
        raise
    model = str(Path(job.out) / "model")
    if as_json:
        print_json({"model": model, "rates": [{"lr": outcome.lr, "score": outcome.score} for outcome in outcomes]})
        return
    for remark in max(outcomes, key=lambda outcome: outcome.score).remarks:
        note(remark)
    print_table([*((f"lr {outcome.lr:g}", f"{outcome.score:.2f}") for outcome in outcomes), ("model", model)])
