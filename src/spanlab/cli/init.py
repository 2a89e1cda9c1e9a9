"""`spanlab init`: sample data and a config to start from."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.atomic_io import check_new_folder
from spanlab.cli.output import print_json

if TYPE_CHECKING:
    from spanlab.samples.export import ExportedFile, Selection

_CONFIG = """# spanlab finetune {task} --config {folder}/config.yaml \\
#     --model MODEL {options} --out run
# MODEL is a model folder, a run folder or a Hugging Face id. Keys that you delete keep their published values.
{settings}"""
_MULTITASK = {"topics": "classification", "names": "ner", "alike": "similarity", "answers": "qa"}
"""The tasks of the sample multitask run, by name."""


def init(
    task: Annotated[str, typer.Argument(help="A task as for finetune, such as ner, or multitask.")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to write.")],
    language: Annotated[str | None, typer.Option(help="en, zh or ko; default: all three.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write sample data for a task and a config with all of its settings.

    Example: spanlab init classification start
    """
    import yaml

    from spanlab.config import to_mapping
    from spanlab.finetuning.config import resolve_run_config
    from spanlab.samples import load
    from spanlab.samples.export import Selection, build_files, write_exported

    check_new_folder(folder, overwrite=overwrite)
    settings = yaml.safe_dump(to_mapping(resolve_run_config(task, {})), sort_keys=False, allow_unicode=True)
    selection = Selection(language=language, format="jsonl")
    if task == "multitask":
        texts, others = _multitask_files(folder, selection)
        options = f"--train {folder}/tasks.yaml"
    else:
        texts, others = build_files(load(), task, folder, selection), {}
        options = f"--train {folder}/train.jsonl --dev {folder}/dev.jsonl"
    config = folder / "config.yaml"
    others[config.name] = _CONFIG.format(task=task, folder=folder, options=options, settings=settings)
    write_exported(folder, texts, others)
    if as_json:
        print_json({"task": task, "config": str(config), "files": {str(file.path): file.examples for file in texts}})
        return
    for file in texts:
        typer.echo(f"{file.path}: {file.examples} examples")
    typer.echo(f"{config}: all settings, and the command that uses them")


def _multitask_files(folder: Path, selection: "Selection") -> "tuple[dict[ExportedFile, str], dict[str, str]]":
    """The files of each task, in a subfolder, and tasks.yaml that lists them."""
    import yaml

    from spanlab.samples import load
    from spanlab.samples.export import build_files

    entries: list[dict[str, object]] = []
    texts: dict[ExportedFile, str] = {}
    for name, task in _MULTITASK.items():
        texts |= build_files(load(), task, folder / name, selection)
        entries.append({"name": name, "task": task, "train": f"{name}/train.jsonl", "dev": f"{name}/dev.jsonl"})
        if task == "ner":
            # Some entities are nested; in Chinese and Korean texts the units are characters.
            wide = {} if selection.language == "en" else {"span": {"max_width": 48}}
            entries[-1]["settings"] = {"head": "span", **wide}
    return texts, {"tasks.yaml": yaml.safe_dump(entries, sort_keys=False)}
