"""`spanlab inspect`: look at what SpanLab works with."""

import typer

from spanlab.cli.inspect_corpus import corpus
from spanlab.cli.inspect_masks import masks
from spanlab.cli.inspect_model import attention, model
from spanlab.cli.inspect_run import run

app = typer.Typer(
    help="Look inside a model and its attention, a corpus, a run, or a recipe's masks.", no_args_is_help=True
)
app.command("model")(model)
app.command("attention")(attention)
app.command("corpus")(corpus)
app.command("masks")(masks)
app.command("run")(run)
