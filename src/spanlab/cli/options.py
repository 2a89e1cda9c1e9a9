"""Arguments and options that several commands share."""

import re
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Annotated, Literal

import typer

from spanlab.errors import ConfigError, InputError
from spanlab.models import WHAT_A_MODEL_IS
from spanlab.tasks.descriptions import DESCRIPTIONS

MODEL_HELP = WHAT_A_MODEL_IS[0].upper() + WHAT_A_MODEL_IS[1:]
ModelArgument = Annotated[str, typer.Argument(help=f"{MODEL_HELP}.")]
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
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress, only what is wrong.")]
PrecisionName = Literal["auto", "fp32", "bf16", "int8", "fp16"]
PrecisionOption = Annotated[
    PrecisionName | None,
    typer.Option(
        help="Of matrix products; auto: the fastest here, by measuring for a second.",
        show_default="bf16 where the device has it, else fp32",
    ),
]
Budget = Annotated[
    str | None, typer.Option("--budget", help="Time for the run, such as 20m or 1.5h: sets its number of steps.")
]
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


def list_names(title: str, descriptions: Mapping[str, str]) -> str:
    """Names with their descriptions, for the end of a help text on a terminal of 80 columns."""
    width = max(map(len, descriptions)) + 4
    lines = (f"  {name:{width - 2}}{line}" for name, line in descriptions.items())
    return "\n".join([title, *(fill(line, 78, subsequent_indent=" " * width) for line in lines)])


def split_columns(columns: str | None) -> tuple[str, ...]:
    """The value of `--columns`, by column; empty without the option."""
    return tuple(columns.split(",")) if columns else ()


def parse_budget(text: str) -> float:
    """The seconds of `90s`, `6m` or `1.5h`."""
    match = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*([smh])\s*", text)
    if match is None:
        raise ConfigError(f"'{text}' is not a duration", fix="write 90s, 6m or 1.5h")
    return float(match[1]) * _UNITS[match[2]]


def check_budget(overrides: Sequence[str], *, resume: bool) -> None:
    """Refuse a budget beside a number of steps."""
    if resume:
        raise InputError("a run that is resumed keeps its number of steps", fix="leave out --budget")
    for override in overrides:
        key = override.partition("=")[0]
        if key in {"training.steps", "training.epochs"}:
            raise InputError(f"--budget sets the number of steps, and so does {key}", fix="give one of them")
