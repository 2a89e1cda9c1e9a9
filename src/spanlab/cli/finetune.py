"""`spanlab finetune`: a labelled file and a model to a fine-tuned model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanlab.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from spanlab.tasks.finetuning import Sources
    from spanlab.tasks.run import FineTuningRun
    from spanlab.tasks.settings import TaskConfig
    from spanlab.training.records import Record


def finetune(
    task: Annotated[str, typer.Argument(help="classification, similarity, …")],
    model: Annotated[str, typer.Option(help="Model folder, run folder or Hugging Face id.")],
    train: Annotated[str, typer.Option(help="Labelled file to train on.")],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE]…", help="Settings, such as training.epochs=3.")
    ] = None,
    dev: Annotated[str | None, typer.Option(help="Labelled file by which the best model is chosen.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file of settings; KEY=VALUE goes over it.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the run in the folder.")] = False,
    sweep: Annotated[bool, typer.Option("--sweep", help="Try the published grid of learning rates.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check everything and train nothing.")] = False,
    print_config: Annotated[bool, typer.Option("--print-config", help="Print the settings and end.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Fine-tune a model for a task.

    The folder then holds the best model on dev in model/, which `spanlab predict`, `evaluate` and `serve` take.

    Example: spanlab finetune classification --model bert --train train.tsv --dev dev.tsv --out run training.epochs=3
    """
    from spanlab.configuration import Source, merge, parse_overrides, read_yaml, to_mapping
    from spanlab.tasks.finetuning import Sources, resolve_config

    mapping, source = read_yaml(config) if config is not None else ({}, Source())
    settings = resolve_config(task, merge(mapping, parse_overrides(overrides or [])), source)
    if print_config:
        import yaml

        typer.echo(yaml.safe_dump(to_mapping(settings), sort_keys=False, allow_unicode=True), nl=False)
        return
    sources = Sources(task=task, model=model, train=train, dev=dev)
    if sweep:
        _sweep(sources, settings, out, overwrite, as_json)
        return
    from spanlab.tasks.run import FineTuningRun

    run = FineTuningRun(sources, settings, out, resume=resume, overwrite=overwrite)
    for line in run.tuning.notes():
        note(line)
    if dry_run:
        note(f"{len(run.tuning.train)} examples; everything is in order")
        return
    _train(run)
    _tell(run, as_json)


def _train(run: "FineTuningRun") -> None:
    from spanlab.cli.progress import StepProgress

    data = run.tuning.work.data
    with StepProgress(run.config.training.total_steps(data.steps_per_epoch)) as shown:
        for record in run.records():
            shown.tell(record)


def _tell(run: "FineTuningRun", as_json: bool) -> None:
    scores = run.tuning.scores
    outcome: dict[str, Any] = {"outcome": run.outcome, "model": str(run.folder.model), "best": run.best}
    outcome |= {} if scores is None else {"last": scores.to_dict()}
    if as_json:
        print_json(outcome)
        return
    last = {} if scores is None else scores.metrics
    rows = [("outcome", run.outcome), ("model", str(run.folder.model))]
    rows += [] if run.best is None else [(f"best {run.tuning.task.primary}", f"{run.best:.2f}")]
    print_table([*rows, *((f"last {name}", f"{value:.2f}") for name, value in last.items())])
    if run.outcome == "interrupted":
        note("go on with --resume")
        raise typer.Exit(130)


def _sweep(sources: "Sources", settings: "TaskConfig", out: Path, overwrite: bool, as_json: bool) -> None:
    from spanlab.tasks.run import sweep

    def told(lr: float, record: "Record") -> None:
        if record.split == "dev":
            scores = ", ".join(f"{name} {value:.2f}" for name, value in record.metrics.items())
            note(f"lr {lr:g}, step {record.step}: {scores}")

    outcomes = sweep(sources, settings, out, overwrite=overwrite, on_record=told)
    if as_json:
        rates = [{"lr": outcome.lr, "score": outcome.score} for outcome in outcomes]
        print_json({"model": str(out / "model"), "rates": rates})
        return
    print_table([*((f"lr {each.lr:g}", f"{each.score:.2f}") for each in outcomes), ("model", str(out / "model"))])
