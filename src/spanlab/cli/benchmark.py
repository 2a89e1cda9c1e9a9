"""`spanlab benchmark`: how fast a model predicts on this machine, in every precision."""

from typing import TYPE_CHECKING, Annotated

import typer

from spanlab.cli.options import ModelArgument
from spanlab.cli.output import note, print_columns, print_json

if TYPE_CHECKING:
    from spanlab.workflows.benchmark import Benchmark


def benchmark(
    model: ModelArgument,
    source: Annotated[
        str | None, typer.Option("--input", help="File of inputs; default: passages of the almanac.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(help="Task, if the model has several; without it, texts are embedded.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="How often every engine answers.")] = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure texts and tokens a second in fp32, bf16 and int8, one at a time and in bulk, with ONNX and transformers.

    ONNX needs the onnx extra; a plain loop over transformers (the encoder alone) the hf extra. A folder that export
    wrote is measured, too. Each figure is the median of the rounds, with the lowest and the highest.

    Example: spanlab benchmark minilm
    """
    from spanlab.workflows.benchmark import benchmark as measure

    result = measure(model, source=source, task=task, rounds=rounds, progress=note)
    for engine, reason in result.left_out.items():
        note(f"{engine} is not measured: {reason}")
    if as_json:
        print_json(result.to_dict())
    else:
        _print(result)


def _print(result: "Benchmark") -> None:
    first = next(iter(result.engines.values()))
    rows = [
        (
            name,
            str(speed.single),
            str(speed.bulk),
            f"{speed.tokens:,.0f}",
            f"{speed.single.median / first.single.median:.2f}, {speed.bulk.median / first.bulk.median:.2f}",
        )
        for name, speed in result.engines.items()
    ]
    head = ("engine", "texts/s, one at a time", "texts/s, in bulk", "tokens/s", f"over {next(iter(result.engines))}")
    print_columns(head, rows, title=f"{result.model}: {result.measured}")
    threads = f"{result.threads} thread{'s' if result.threads > 1 else ''} on {result.cores} cores"
    typer.echo(f"{result.cpu}, {threads}; int8 instructions: {result.int8_instructions or 'none'}")
    typer.echo(
        f"{result.texts:,} texts of {result.tokens_per_text:.0f} tokens in bulk; median of {result.rounds} rounds"
    )
