"""`spanlab new`: a model folder with random weights."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.cli.output import print_json


def new(
    recipe: Annotated[str, typer.Argument(help="A recipe of the list below, or a YAML file.")],
    tokenizer: Annotated[Path, typer.Option(help="Folder of the tokenizer.")],
    out: Annotated[Path, typer.Option("--out", help="Model folder to write.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="KEY=VALUE", help="Settings, such as size=mini encoder.layers=6 seed=1."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Write an untrained model: what spanlab pretrain would start from, to be fine-tuned from scratch.

    Example: spanlab new transformer --tokenizer tokenizer --out untrained size=mini
    """
    from spanlab.pretraining.recipe import load_recipe
    from spanlab.workflows.new_model import new_model

    config = new_model(load_recipe(recipe, overrides or []), tokenizer, out, overwrite=overwrite)
    if as_json:
        numbers = {"layers": config.layers, "width": config.width, "vocab_size": config.vocab_size}
        print_json({"folder": str(out), "architecture": config.architecture, **numbers})
        return
    shape = f"{config.layers} layers, {config.width} wide, {config.vocab_size:,} tokens"
    typer.echo(f"{out}: {config.architecture}, {shape}, random weights")
