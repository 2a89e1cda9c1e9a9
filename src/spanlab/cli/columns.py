"""The option `--columns`: which column of a table is which field."""

from typing import Annotated

import typer

ColumnsOption = Annotated[
    str | None, typer.Option(help="Which column is which, such as review:text; without header, _,label,_,text.")
]


def split_columns(typed: str | None) -> tuple[str, ...]:
    """The columns as they were typed; none where the option was left out."""
    return tuple(typed.split(",")) if typed else ()
