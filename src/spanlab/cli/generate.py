"""`spanlab generate`: a causal language model continues a text."""

from typing import Annotated

import typer

from spanlab.cli.options import DeviceOption
from spanlab.cli.output import note, print_json


def generate(
    model: Annotated[str, typer.Argument(help="Model folder, run folder or Hugging Face id, with a causal LM head.")],
    text: Annotated[str, typer.Argument(help="The text to continue.")],
    max_new_tokens: Annotated[int, typer.Option(help="Maximum number of tokens to generate.", min=1)] = 50,
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

    Without --temperature, tokens are sampled at temperature 1, and beam search takes the likeliest.

    Example: spanlab generate runs/novels "It was a dark" --max-new-tokens 40 --temperature 0.8 --seed 1
    """
    from spanlab.decoding.sampling import DecodingConfig
    from spanlab.encoder.pretrained import load_model
    from spanlab.inference.generation import generate as continue_texts
    from spanlab.text.tokenizer import Tokenizer
    from spanlab.training.distributed import current_process

    config = DecodingConfig(
        max_new_tokens=max_new_tokens,
        temperature=temperature if temperature is not None else float(beams == 1),
        top_k=top_k,
        top_p=top_p,
        beams=beams,
        seed=seed,
    )
    loaded = load_model(model)
    head = loaded.head("clm")
    assert loaded.folder is not None
    tokenizer = Tokenizer.load(loaded.folder)
    torch_device = current_process(device, "fp32").device
    loaded.encoder.to(torch_device), head.to(torch_device)
    result = continue_texts(loaded, tokenizer, [text], config, use_cache=cache)[0]
    if as_json:
        print_json(result.to_dict())
        return
    typer.echo(result.full_text)
    if result.ended == "positions":
        note(f"stopped after {len(result.token_ids)} tokens: the model has no more positions")
