"""`spanlab inspect attention`: where the heads of a model look in a text."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.cli.output import note, print_json, print_table


def attention(
    model: Annotated[str, typer.Argument(help="A model folder, a run folder or a hub id.")],
    text: Annotated[str, typer.Argument(help="What to read.")],
    layer: Annotated[int, typer.Option(min=1, help="Which layer to tell about, from 1.")] = 1,
    head: Annotated[int, typer.Option(min=1, help="Which head of it, from 1.")] = 1,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with all heads.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the weights of the head as JSON.")] = False,
) -> None:
    """Where a head looks: for every token, the tokens that most goes into it from.

    Example: spanlab inspect attention MODEL "The miller sold his flour because it was fresh." --layer 4 --head 2
    """
    from spanlab.report.attention import attention_page, look_at_attention

    report = look_at_attention(model, text)
    weights_TT = report.head(layer, head)
    if html is not None:
        html.write_text(attention_page(report), encoding="utf-8")
        note(f"wrote {html}")
    if as_json:
        print_json({"tokens": report.tokens, "layer": layer, "head": head, "weights": weights_TT.tolist()})
        return
    rows = []
    for token, row_T in zip(report.tokens, weights_TT, strict=True):
        most = row_T.argsort()[::-1][:3]
        rows.append((token, ", ".join(f"{report.tokens[place]} {row_T[place]:.0%}" for place in most)))
    print_table(rows, title=f"layer {layer}, head {head}")
