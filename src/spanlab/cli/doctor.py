"""`spanlab doctor`: whether this machine is ready, and how fast it is."""

from typing import Annotated

import typer

from spanlab.cli.output import print_json, print_table


def doctor(
    offline: Annotated[bool, typer.Option("--offline", help="Do not connect to the Hugging Face hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check this machine: versions, devices, threads, bf16 and measured speed, disk, memory, extras, the hub.

    The exit code is 1 if a package that SpanLab needs is missing.

    Example: spanlab doctor --offline
    """
    from spanlab.machine import examine

    report = examine(ask_hub=not offline)
    if as_json:
        print_json(report.to_dict())
    else:
        print_table(report.rows(), title="spanlab doctor")
    if not report.usable:
        raise typer.Exit(1)
