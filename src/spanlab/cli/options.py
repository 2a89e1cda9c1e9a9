"""Options that several commands have in common."""

from typing import Annotated, Literal

import typer

ColumnsOption = Annotated[
    str | None,
    typer.Option(
        help="The fields of the columns, such as review:text; of a file without header, such as _,label,_,text."
    ),
]
DeviceOption = Annotated[Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Device to run on.")]


def split_columns(columns: str | None) -> tuple[str, ...]:
    """The value of `--columns`, by column; empty without the option."""
    return tuple(columns.split(",")) if columns else ()
