"""Generation by greedy search, sampling or beam search: a causal model continues texts, a decoder answers them.

What enters are texts; what leaves are frozen results with the continuation and the whole text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import torch

from spanlab.decoding.config import Decoded, DecodingConfig, Ending
from spanlab.decoding.generate import generate_ids
from spanlab.encoder import CausalLMHead, Model
from spanlab.encoder.layers import evaluating
from spanlab.tasks.examples import encode_examples
from spanlab.tasks.formats.row import Row
from spanlab.tasks.generation.decoder_head import DecoderHead
from spanlab.tasks.generation.task import Generation as GenerationTask
from spanlab.tasks.model import TaskModel
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.text.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A prompt and its continuation."""

    prompt: str
    text: str
    """The continuation, with the space before it if there is one."""
    full_text: str
    """The prompt and its continuation; of a decoder, the text alone."""
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


def generate_targets(
    model: TaskModel, sources: Sequence[str], config: DecodingConfig, *, use_cache: bool = True
) -> list[Generation]:
    """What the decoder of a fine-tuned model writes for each text; at most as many tokens as it was trained for."""
    name, task, head = next(_decoder_tasks(model))
    rows = [Row(values={"source": source}, path=f"text {index}") for index, source in enumerate(sources)]
    for row in rows:
        for problem in task.problems(row, labelled=False):
            raise problem.error(row)
    examples = [task.parse(row, labelled=False) for row in rows]
    samples = encode_examples(task, examples, rows, model.windower(name), labelled=False)
    device = model.encoder.word_table.device
    batch = pack_samples(SampleBatch(task=name, samples=tuple(samples)), device)
    with torch.no_grad(), evaluating(model.encoder, head):
        found = head.search(model.encoder, batch, config, use_cache=use_cache)
    words = task.target_tokenizer or model.tokenizer
    texts = [words.decode(decoded.ids, skip_special_tokens=True).strip() for decoded in found]
    return [
        Generation(
            prompt=source,
            text=text,
            full_text=text,
            token_ids=decoded.ids,
            ended=decoded.ended,
            log_probability=decoded.log_probability,
        )
        for source, text, decoded in zip(sources, texts, found, strict=True)
    ]


def decoder_settings(model: TaskModel) -> DecodingConfig | None:
    """How the decoder of a model was set to search in its training; None without one."""
    return next((task.config.decoding() for _, task, _ in _decoder_tasks(model)), None)


def _decoder_tasks(model: TaskModel) -> Iterator[tuple[str, GenerationTask, DecoderHead]]:
    for name, task in model.tasks.items():
        head = model.heads[name]
        if isinstance(task, GenerationTask) and isinstance(head, DecoderHead):
            yield name, task, head


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
