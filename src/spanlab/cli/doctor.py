"""`spanlab doctor`: is this machine ready, and how fast is it?"""

from typing import Annotated

import typer

from spanlab.cli.output import print_json, print_table


def doctor(
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask whether the hub answers.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Versions, devices, threads, bf16 with measured speed, disk and memory, extras, and the hub.

    Exits 0 when SpanLab can be used here, 1 when something it needs is missing.

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
