"""`spanlab package`: a model as a wheel that pip installs."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from spanlab.cli.options import ModelArgument
from spanlab.cli.output import print_json


def package(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write the wheel to.")],
    name: Annotated[
        str | None, typer.Option(help="Name to use the model by; default: that of its folder or run.")
    ] = None,
    version: Annotated[str, typer.Option(help="Version of the package.")] = "1.0",
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a wheel of this name and version.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Make a wheel of a model: after pip install of it, the model is used by its name.

    Its files are verified by their sha256 whenever it is loaded; none of the wheel's code is run.

    Example: spanlab package run --out wheels --name sentiment
    """
    from spanlab.inference.package import package_model

    wheel = package_model(model, out, name=name, version=version, overwrite=overwrite)
    if as_json:
        print_json({"wheel": str(wheel), "bytes": wheel.stat().st_size})
    else:
        typer.echo(f"{wheel}: {wheel.stat().st_size / 1e6:,.1f} MB; pip install {shlex.quote(str(wheel))}")
