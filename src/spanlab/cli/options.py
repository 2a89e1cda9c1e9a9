"""Arguments and options that several commands share."""

from typing import Annotated, Literal

import typer

ModelArgument = Annotated[str, typer.Argument(help="Model folder, run folder or Hugging Face id.")]
TaskArgument = Annotated[
    str,
    typer.Argument(help="classification, similarity, ner, qa, coref, relation, summarisation or generation."),
]
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


def split_columns(columns: str | None) -> tuple[str, ...]:
    """The value of `--columns`, by column; empty without the option."""
    return tuple(columns.split(",")) if columns else ()
