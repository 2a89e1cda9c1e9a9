"""`spanlab push`: upload a model folder to the Hugging Face hub."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from spanlab.cli.options import QuietOption
from spanlab.cli.output import note, print_json


def push(
    model: Annotated[str, typer.Argument(help="Model folder or run folder.")],
    repository: Annotated[str, typer.Argument(metavar="REPO_ID", help="Repository, such as name/model.")],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    message: Annotated[str, typer.Option(help="Commit message.")] = "Upload a SpanLab model",
    quiet: QuietOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Upload a model folder with its card to the hub; log in with `hf auth login` first.

    Example: spanlab push run name/sentiment
    """
    from spanlab.inference.push import push_model

    if Path(model).is_dir() and not (quiet or sys.stderr.isatty()):  # on a terminal the hub's client draws its bars
        note(f"push: uploading {model} to {repository}")
    bars = sys.stderr.isatty() and not quiet
    address = push_model(model, repository, private=private, message=message, bars=bars)
    if as_json:
        print_json({"repository": repository, "address": address})
    else:
        typer.echo(address)
