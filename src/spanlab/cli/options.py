"""Arguments and options that several commands share."""

from collections.abc import Mapping
from textwrap import fill
from typing import Annotated, Literal

import typer

from spanlab.tasks.descriptions import DESCRIPTIONS

ModelArgument = Annotated[str, typer.Argument(help="Model folder, run folder or Hugging Face id.")]
_SINGLE_TASKS = [name for name in DESCRIPTIONS if name != "multitask"]
TaskArgument = Annotated[str, typer.Argument(help=f"{', '.join(_SINGLE_TASKS[:-1])} or {_SINGLE_TASKS[-1]}.")]
ColumnsOption = Annotated[
    str | None,
    typer.Option(
        help="Fields by column or key, such as review:text; for a file without header in order, such as _,label,_,text."
    ),
]
TagSchemeOption = Annotated[
    Literal["auto", "IOB1", "IOB2", "BIOES", "BILOU", "BMES"],
    typer.Option(help="Scheme of the tags in CoNLL columns; auto: told by the tags.", case_sensitive=False),
]
DeviceOption = Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Device to run on.")]


def list_names(title: str, descriptions: Mapping[str, str]) -> str:
    """Names with their descriptions, for the end of a help text on a terminal of 80 columns."""
    width = max(map(len, descriptions)) + 4
    lines = (f"  {name:{width - 2}}{line}" for name, line in descriptions.items())
    return "\n".join([title, *(fill(line, 78, subsequent_indent=" " * width) for line in lines)])


def split_columns(columns: str | None) -> tuple[str, ...]:
    """The value of `--columns`, by column; empty without the option."""
    return tuple(columns.split(",")) if columns else ()
