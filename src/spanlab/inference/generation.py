"""Generation: a causal model continues prompts by greedy search, sampling or beam search.

What enters are texts; what leaves are frozen results with the continuation and the whole text.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from spanlab.decoding.generate import generate_ids
from spanlab.decoding.sampling import Decoded, DecodingConfig, Ending
from spanlab.encoder import CausalLMHead, Model
from spanlab.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A prompt and its continuation."""

    prompt: str
    text: str
    """The continuation, with the space before it if there is one."""
    full_text: str
    """The prompt and its continuation."""
    token_ids: tuple[int, ...]
    """Of `text`, without a stop token."""
    ended: Ending
    """`stop` at a stop token, `length` at max_new_tokens, `positions` where the model has no more positions."""
    log_probability: float
    """Of the continuation, under the model."""

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "token_ids": list(self.token_ids)}


def generate(
    model: Model,
    tokenizer: Tokenizer,
    prompts: Sequence[str],
    config: DecodingConfig | None = None,
    *,
    use_cache: bool = True,
) -> list[Generation]:
    """The model's continuation of each text.

    Generation stops at the tokenizer's separator (GPT's <|endoftext|>) and at the stop ids of the config.
    """
    config = config or DecodingConfig()
    head = cast("CausalLMHead", model.head("clm"))
    if tokenizer.sep_id is not None and tokenizer.sep_id not in config.stop_ids:
        config = replace(config, stop_ids=(*config.stop_ids, tokenizer.sep_id))
    ids = [[int(token) for token in tokens.ids] for tokens in tokenizer.encode_batch(prompts)]
    decoded = generate_ids(model.encoder, head, ids, config, use_cache=use_cache)
    return [_to_text(tokenizer, *parts) for parts in zip(prompts, ids, decoded, strict=True)]


def _to_text(tokenizer: Tokenizer, prompt: str, prompt_ids: list[int], decoded: Decoded) -> Generation:
    """A result as text. Prompt and continuation are decoded together, since spaces depend on the token before."""
    prefix, whole = tokenizer.decode(prompt_ids), tokenizer.decode([*prompt_ids, *decoded.ids])
    text = whole.removeprefix(prefix) if whole.startswith(prefix) else tokenizer.decode(decoded.ids)
    return Generation(
        prompt=prompt,
        text=text,
        full_text=prompt + text,
        token_ids=decoded.ids,
        ended=decoded.ended,
        log_probability=decoded.log_probability,
    )
