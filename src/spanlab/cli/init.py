"""`spanlab init`: sample data and a config to start from."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.cli.output import print_json

_CONFIG = """# spanlab finetune {task} --config {folder}/config.yaml \\
#     --model MODEL --train {folder}/train.jsonl --dev {folder}/dev.jsonl --out run
# MODEL is a model folder, a run folder or a Hugging Face id. What is left out is as published.
{settings}"""


def init(
    task: Annotated[str, typer.Argument(help="classification, similarity, …")],
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to write.")],
    language: Annotated[str | None, typer.Option(help="en, zh or ko; all three without it.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Write sample data for a task, and a config with all its settings.

    Example: spanlab init classification start
    """
    import yaml

    from spanlab.configuration import to_mapping
    from spanlab.tasks.table import find_task
    from spanlab.text.almanac import load
    from spanlab.text.almanac.exports import Selection, export

    settings = yaml.safe_dump(to_mapping(find_task(task).Config()), sort_keys=False, allow_unicode=True)
    files = export(load(), task, folder, Selection(language=language, format="jsonl"), overwrite=overwrite)
    config = folder / "config.yaml"
    config.write_text(_CONFIG.format(task=task, folder=folder, settings=settings), encoding="utf-8")
    if as_json:
        print_json({"task": task, "config": str(config), "files": {str(file.path): file.examples for file in files}})
        return
    for file in files:
        typer.echo(f"{file.path}: {file.examples} examples")
    typer.echo(f"{config}: settings, and the command that uses them")
