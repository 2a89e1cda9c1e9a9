"""`spanlab generate`: a causal language model continues a text, or a decoder writes the target of one."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from spanlab.cli.options import DeviceOption
from spanlab.cli.output import note, print_json

if TYPE_CHECKING:
    from spanlab.decoding.config import DecodingConfig
    from spanlab.inference.generation import Generation
    from spanlab.training.config import Device


def generate(
    model: Annotated[
        str, typer.Argument(help="Model folder, run folder or Hugging Face id, with a causal LM head or a decoder.")
    ],
    text: Annotated[str, typer.Argument(help="The text to continue, or the source.")],
    max_new_tokens: Annotated[
        int | None,
        typer.Option(help="Maximum number of tokens to generate; default: 50, or that of a decoder's training.", min=1),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="0 takes the likeliest token; 1 samples from the model's distribution.")
    ] = None,
    top_k: Annotated[int | None, typer.Option(help="Sample among the k likeliest tokens.")] = None,
    top_p: Annotated[
        float | None, typer.Option(help="Sample among the likeliest tokens of this total probability.")
    ] = None,
    beams: Annotated[int, typer.Option(help="More than 1: beam search instead of sampling.", min=1)] = 1,
    seed: Annotated[int, typer.Option(help="Seed of the sampling.")] = 0,
    cache: Annotated[
        bool, typer.Option(help="Cache keys and values; without a cache, every step encodes the whole text.")
    ] = True,
    device: DeviceOption = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Continue a text with a causal language model, such as one trained by the gpt recipe.

    Without --temperature, tokens are sampled at temperature 1, and beam search takes the likeliest. A model fine-tuned
    with head=decoder writes the target of the text, such as its translation: without sampling options, as it was set
    to by its training.

    Examples:
      spanlab generate runs/novels "It was a dark" --max-new-tokens 40 --temperature 0.8 --seed 1
      spanlab generate runs/translation "Two dogs are playing." --beams 4
    """
    from spanlab.decoding.config import DecodingConfig

    config = DecodingConfig(
        max_new_tokens=max_new_tokens or 50,
        temperature=temperature if temperature is not None else float(beams == 1),
        top_k=top_k,
        top_p=top_p,
        beams=beams,
        seed=seed,
    )
    given = {"max_new_tokens": max_new_tokens, "beams": beams if beams > 1 else None}
    changes = {name: value for name, value in given.items() if value is not None}
    samples = temperature is not None or top_k is not None or top_p is not None
    result = _generate(model, text, config, None if samples else changes, use_cache=cache, device=device)
    if as_json:
        print_json(result.to_dict())
        return
    typer.echo(result.full_text)
    if result.ended == "positions":
        note(f"stopped after {len(result.token_ids)} tokens: the model has no more positions")


def _generate(
    model: str,
    text: str,
    config: "DecodingConfig",
    changes: Mapping[str, Any] | None,
    *,
    use_cache: bool,
    device: "Device",
) -> "Generation":
    """The result; a decoder searches as in its training but for `changes`, or with None as `config` says."""
    from spanlab.encoder.pretrained import load_model
    from spanlab.inference.generation import decoder_settings, generate, generate_targets
    from spanlab.tasks.model import load_task_model
    from spanlab.text.tokenizer import Tokenizer
    from spanlab.training.distributed import current_process

    torch_device = current_process(device, "fp32").device
    loaded = load_model(model)
    assert loaded.folder is not None
    if loaded.tasks:  # heads that transformers has no class for
        tasks = load_task_model(loaded.folder)
        if (decoding := decoder_settings(tasks)) is not None:
            config = config if changes is None else replace(decoding, **changes)
            for module in (tasks.encoder, *tasks.heads.values()):
                module.to(torch_device)
            return generate_targets(tasks, [text], config, use_cache=use_cache)[0]
    head = loaded.head("clm")
    tokenizer = Tokenizer.load(loaded.folder)
    loaded.encoder.to(torch_device), head.to(torch_device)
    return generate(loaded, tokenizer, [text], config, use_cache=use_cache)[0]
