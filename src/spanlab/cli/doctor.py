"""`spanlab doctor`: whether this machine is ready, and how fast it is."""

from typing import Annotated

import typer

from spanlab.cli.output import print_json, print_table


def doctor(
    offline: Annotated[bool, typer.Option("--offline", help="Do not connect to the Hugging Face hub.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Check this machine: versions, devices, threads, instructions and measured speed, disk, memory, extras, the hub.

    The fastest precision is that of an encoder of MiniLM's width; --precision auto measures the model itself.

    The exit code is 1 if a package that SpanLab needs is missing.

    Example: spanlab doctor --offline
    """
    from spanlab.machine import examine

    report = examine(ask_hub=not offline)
    speeds, fastest_here = _measure() if report.usable else ({}, None)
    if as_json:
        print_json({**report.to_dict(), "prediction": {"over_fp32": speeds, "fastest": fastest_here}})
    else:
        shown = [f"{name} {alone:.1f} and {bulk:.1f} times fp32" for name, (alone, bulk) in speeds.items()]
        *rows, verdict = report.rows()
        rows += [("prediction", f"{', '.join(shown)} (alone, in bulk); fastest is {fastest_here}")] if shown else []
        print_table([*rows, verdict], title="spanlab doctor")
    if not report.usable:
        raise typer.Exit(1)


def _measure() -> tuple[dict[str, tuple[float, float]], str]:
    """How many times as fast as fp32 other precisions predict, one text alone and in bulk, and which is fastest."""
    from spanlab.inference.precision import fastest, measure_machine

    measured = measure_machine()
    exact = measured["fp32"]
    return {name: entry.speed_over(exact) for name, entry in measured.items() if name != "fp32"}, fastest(measured)
