"""`spanlab inspect model` and `inspect attention`: the parts and the cost of a model, and its attention on a text."""

from pathlib import Path
from typing import Annotated

import typer

from spanlab.atomic_io import write_atomically
from spanlab.cli.options import ModelArgument
from spanlab.cli.output import note, print_json, print_table


def model(
    model: ModelArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Show a model: architecture, parameters by part, vocabulary, heads, memory and FLOPs per token.

    Example: spanlab inspect model runs/legal/model
    """
    from spanlab.config import to_mapping
    from spanlab.encoder import ElmoEncoder
    from spanlab.encoder.flops import count_cost
    from spanlab.encoder.pretrained import load_model
    from spanlab.encoder.pretrained.vocabulary import tokenizer_size

    loaded = load_model(model)
    assert loaded.folder is not None
    config = loaded.encoder.config
    cost = count_cost(loaded.encoder, loaded.heads)
    tokens = tokenizer_size(loaded.folder)
    elmo = loaded.encoder.elmo_config if isinstance(loaded.encoder, ElmoEncoder) else None
    inner = f"{config.heads} heads, {config.inner_width} inner" if elmo is None else f"{elmo.cells} cells each way"
    if as_json:
        print_json(
            {
                "folder": str(loaded.folder),
                "config": to_mapping(loaded.encoder.full_config),
                "parameters": {**cost.parameters, "total": cost.total},
                "tokenizer_size": tokens,
                "heads": sorted(loaded.heads),
                "bytes_fp32": cost.bytes_fp32,
                "flops_per_token": cost.flops_per_token,
                "unexpected": list(loaded.report.unexpected),
            }
        )
        return
    rows = [
        ("architecture", config.architecture),
        ("shape", f"{config.layers} layers x {config.width}, {inner}"),
        (
            "positions",
            f"{config.positions}, up to {config.max_positions}" if config.limits_length else config.positions,
        ),
        ("vocabulary", f"{config.vocab_size:,} rows, tokenizer {'missing' if tokens is None else f'{tokens:,}'}"),
        ("heads", ", ".join(sorted(loaded.heads)) or "none"),
        *((f"  {part}", f"{count:,}") for part, count in cost.parameters.items()),
        ("parameters", f"{cost.total:,}"),
        ("memory", f"{cost.bytes_fp32 / 2**20:,.1f} MiB in fp32, {cost.bytes_fp32 / 2**21:,.1f} MiB in bf16"),
        ("arithmetic", f"{cost.flops_per_token / 1e6:,.1f} MFLOP per token at {config.max_positions} tokens"),
        *(("ignored", name) for name in loaded.report.unexpected),
    ]
    print_table(rows)


def attention(
    model: ModelArgument,
    text: Annotated[str, typer.Argument(help="Text to encode.")],
    layer: Annotated[int, typer.Option(min=1, help="Layer to show, from 1.")] = 1,
    head: Annotated[int, typer.Option(min=1, help="Head to show, from 1.")] = 1,
    html: Annotated[Path | None, typer.Option("--html", help="Also write a page with all heads.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the weights of the head as JSON.")] = False,
) -> None:
    """Show where a head attends: for every token, the tokens with the largest weights.

    Example: spanlab inspect attention MODEL "The miller sold his flour because it was fresh." --layer 4 --head 2
    """
    from spanlab.report.attention import look_at_attention

    report = look_at_attention(model, text)
    weights_TT = report.head(layer, head)
    if html is not None:
        from spanlab.serving.attention_page import attention_page

        write_atomically(html, attention_page(report, text, layer=layer, head=head).encode("utf-8", "backslashreplace"))
        note(f"wrote {html}")
    if as_json:
        print_json({"tokens": report.tokens, "layer": layer, "head": head, "weights": weights_TT.tolist()})
        return
    rows = []
    for token, row_T in zip(report.tokens, weights_TT, strict=True):
        largest = row_T.argsort()[::-1][:3]
        rows.append((token, ", ".join(f"{report.tokens[position]} {row_T[position]:.0%}" for position in largest)))
    print_table(rows, title=f"layer {layer}, head {head}")
