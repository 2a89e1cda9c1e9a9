"""`spanlab init`: sample data, a config to start from, and the commands that use them."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanlab.atomic_io import check_new_folder
from spanlab.cli.output import print_json
from spanlab.models import WHAT_A_MODEL_IS

if TYPE_CHECKING:
    from spanlab.samples.export import ExportedFile, Selection

_CONFIG = """# {train}
# MODEL is {model}.
# Keys that you delete keep their published values. training.lr and training.epochs follow from the model and the number
# of examples unless they are given.
{settings}"""
_CAUSAL_MODEL = "a causal model, such as a run of spanlab pretrain gpt, or gpt2 from the hub"
_MULTITASK = {"topics": "classification", "names": "ner", "alike": "similarity", "answers": "qa"}
"""The tasks of the sample multitask run, by name."""


def init(
    task: Annotated[str, typer.Argument(help="A task of the list below.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write.")],
    language: Annotated[str | None, typer.Option(help="en, zh or ko; default: all three.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write sample data for a task, a config with its settings, and print the commands that use them.

    Example: spanlab init classification start
    """
    import yaml

    from spanlab.config import to_mapping
    from spanlab.finetuning.config import resolve_run_config
    from spanlab.finetuning.defaults import CHOSEN
    from spanlab.samples import load
    from spanlab.samples.export import Selection, build_files, sample_settings, write_exported

    check_new_folder(folder, overwrite=overwrite)
    settings = to_mapping(resolve_run_config(task, sample_settings(task, language)))
    for key in CHOSEN:
        del settings["training"][key]
    selection = Selection(language=language, format="jsonl")
    if task == "multitask":
        texts, others = _multitask_files(folder, selection)
    else:
        texts, others = build_files(load(), task, folder, selection), {}
    config = folder / "config.yaml"
    commands = _commands(task, folder, config)
    model = _CAUSAL_MODEL if task == "generation" else WHAT_A_MODEL_IS
    written = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
    others[config.name] = _CONFIG.format(train=commands[0], model=model, settings=written)
    write_exported(folder, texts, others)
    if as_json:
        counts = {str(file.path): file.examples for file in texts}
        print_json({"task": task, "config": str(config), "files": counts, "commands": commands})
        return
    for file in texts:
        typer.echo(f"{file.path}: {file.examples} examples")
    typer.echo(f"{config}: settings of the run")
    typer.echo("\n  ".join(["\nNext:", *commands]))
    typer.echo(f"MODEL is {model}.")


def _multitask_files(folder: Path, selection: "Selection") -> "tuple[dict[ExportedFile, str], dict[str, str]]":
    """The files of each task, in a subfolder, and tasks.yaml that lists them."""
    import yaml

    from spanlab.samples import load
    from spanlab.samples.export import build_files, sample_settings

    entries: list[dict[str, Any]] = []
    texts: dict[ExportedFile, str] = {}
    for name, task in _MULTITASK.items():
        texts |= build_files(load(), task, folder / name, selection)
        entries.append({"name": name, "task": task, "train": f"{name}/train.jsonl", "dev": f"{name}/dev.jsonl"})
        if settings := sample_settings(task, selection.language):
            entries[-1]["settings"] = settings
    return texts, {"tasks.yaml": yaml.safe_dump(entries, sort_keys=False)}


def _commands(task: str, folder: Path, config: Path) -> list[str]:
    """What trains, evaluates and predicts with the files of the folder, each command on one line."""
    run = folder / "run"
    if task == "multitask":
        data = ["--train", folder / "tasks.yaml"]
        tests = [(folder / name / "test.jsonl", ["--task", name]) for name in _MULTITASK]
    else:
        data = ["--train", folder / "train.jsonl", "--dev", folder / "dev.jsonl"]
        tests = [(folder / "test.jsonl", [])]
    commands: list[list[object]] = [
        ["finetune", task, "--config", config, "--model", "MODEL", *data, "--out", run],
        *(["evaluate", run, "--data", test, *option] for test, option in tests),
        *(["predict", run, "--input", test, *option] for test, option in tests),
    ]
    return [shlex.join(["spanlab", *map(str, command)]) for command in commands]
