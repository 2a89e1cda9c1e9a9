"""`spanlab inspect`: look at what SpanLab works with."""

import typer

from spanlab.cli.inspect_model import model

app = typer.Typer(help="Look inside a model.", no_args_is_help=True)


@app.callback()
def _inspect() -> None:
    """Look inside a model."""


app.command("model")(model)
