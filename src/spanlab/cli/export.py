"""`spanlab export`: a model to a folder that predicts without torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from spanlab.cli.options import ModelArgument
from spanlab.cli.output import note, print_json, print_table

if TYPE_CHECKING:
    from spanlab.workflows.export import ExportReport


def export(
    model: ModelArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")],
    to: Annotated[Literal["onnx"], typer.Option("--to", help="onnx: graphs for ONNX Runtime, opset 17.")] = "onnx",
    int8: Annotated[bool, typer.Option("--int8", help="Matrices of the encoder as int8, by output channel.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Write into a folder that is not empty.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Export a model as a folder that predicts and embeds with ONNX Runtime, numpy and tokenizers, without torch.

    All tasks but generation, and all encoders but XLNet and ELMo. predict, evaluate, embed and spanlab.load take the
    folder as any model. At the end the answers are compared with torch's on passages of the almanac, and the seconds.

    Examples:
      spanlab export runs/ner --to onnx --out ner-onnx
      spanlab export reader --to onnx --int8 --out reader-int8
    """
    from spanlab.atomic_io import check_new_folder
    from spanlab.workflows.export import export as run

    check_new_folder(out, overwrite=overwrite)
    report = run(model, out, int8=int8)
    if as_json:
        print_json(report.to_dict())
        return
    _print(report)


def _print(report: "ExportReport") -> None:
    parity = report.parity
    rows = [
        (
            name,
            f"{agreement.identical:.1%} of {agreement.inputs} answers identical, scores within "
            f"{agreement.largest_difference:.1e}",
        )
        for name, agreement in parity.by_task.items()
    ]
    times = {
        "one by one": (parity.onnx_seconds, parity.torch_seconds),
        "in bulk": (parity.onnx_bulk_seconds, parity.torch_bulk_seconds),
    }
    rows += [
        (name, f"{1000 * ours:.1f} ms a text, torch {1000 * theirs:.1f} ms") for name, (ours, theirs) in times.items()
    ]
    rows.append(("threads", str(parity.threads)))
    typer.echo(f"{report.folder}: {report.megabytes:.1f} MB, opset {report.exported.opset}")
    print_table(rows)
    if report.exported.int8:
        for remark in _remarks(report):
            note(remark)


def _remarks(report: "ExportReport") -> list[str]:
    """What a user of int8 should know about it on this machine."""
    parity = report.parity
    remarks = []
    if not report.vnni:
        remarks.append("this CPU has no VNNI instructions: matrices have 7 bits, so that products do not saturate")
    if parity.onnx_bulk_seconds > parity.torch_bulk_seconds:
        remarks.append("int8 is slower than torch in fp32 on this CPU: export without --int8, or use torch")
    return remarks
