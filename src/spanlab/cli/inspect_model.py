"""`spanlab inspect model`: what is in a model folder and what it costs."""

from typing import Annotated

import typer

from spanlab.cli.output import print_json, print_table


def model(
    model: Annotated[str, typer.Argument(help="A model folder, a run folder or a hub id.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print it as JSON.")] = False,
) -> None:
    """Architecture, parameters by part, vocabulary, heads, memory and arithmetic per token.

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
        ("vocabulary", f"{config.vocab_size:,} rows, tokenizer {'not there' if tokens is None else f'{tokens:,}'}"),
        ("heads", ", ".join(sorted(loaded.heads)) or "none"),
        *((f"  {part}", f"{count:,}") for part, count in cost.parameters.items()),
        ("parameters", f"{cost.total:,}"),
        ("memory", f"{cost.bytes_fp32 / 2**20:,.1f} MiB in fp32, {cost.bytes_fp32 / 2**21:,.1f} MiB in bf16"),
        ("arithmetic", f"{cost.flops_per_token / 1e6:,.1f} MFLOP a token at {config.max_positions} tokens"),
        *(("left out", name) for name in loaded.report.unexpected),
    ]
    print_table(rows)
