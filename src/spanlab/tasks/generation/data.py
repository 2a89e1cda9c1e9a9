"""Rows to examples, and examples to the samples of either head.

There are no windows: a target is generated from the whole source, so a source that is too long is an error, or
truncated on request.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spanlab.arrays import Integers
from spanlab.errors import ConfigError, InputError
from spanlab.tasks.formats.row import Row
from spanlab.tasks.generation.config import GenerationConfig
from spanlab.tasks.sample import Sample, TokenSequence
from spanlab.tasks.validation import Problem, text_problems
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer
from spanlab.text.tokens import Tokens

READ, NEXT, START, END = "read", "next", "start", "end"
"""Arrays of a sample: the target tokens that the decoder reads, those that it predicts, and the ids around a target."""
_SOURCES = ("source", "text")

# ---- read


@dataclass(frozen=True, kw_only=True)
class GenerationExample:
    """A source and its reference targets, any one of which is correct."""

    id: str | None
    source: str
    targets: tuple[str, ...] = ()


def generation_problems(row: Row, *, labelled: bool) -> Iterator[Problem]:
    """Everything wrong with a row."""
    yield from text_problems(Row(values={"source": _joined(_source(row))}), "source")
    if labelled:
        yield from _target_problems(row)


def parse_generation(row: Row, *, labelled: bool) -> GenerationExample:
    """The example of a row without problems."""
    name = row.values.get("id", row.values.get("paper_id"))
    targets = tuple(_alternatives(row.values["target"])) if labelled else ()
    return GenerationExample(id=None if name is None else str(name), source=_joined(_source(row)), targets=targets)


def _target_problems(row: Row) -> Iterator[Problem]:
    targets = _alternatives(row.values.get("target"))
    if not targets:
        yield Problem(kind="empty text", cause="'target' is an empty list", fix="write one, or remove the example")
    for target in targets:
        yield from text_problems(Row(values={"target": target}), "target")


def _source(row: Row) -> Any:  # noqa: ANN401 (anything JSON holds)
    return next((row.values[name] for name in _SOURCES if row.values.get(name) is not None), None)


def _joined(source: Any) -> Any:  # noqa: ANN401
    """A list of sentences as one text; anything else as it is."""
    is_list = isinstance(source, list | tuple) and all(isinstance(sentence, str) for sentence in source)
    return " ".join(sentence.strip() for sentence in source if sentence.strip()) if is_list else source


def _alternatives(target: Any) -> list[Any]:  # noqa: ANN401
    return list(target) if isinstance(target, list | tuple) else [target]


# ---- encode


@dataclass(frozen=True, kw_only=True, eq=False)
class GenerationSample(Sample):
    """A sample with the tokenizer that decodes its output."""

    tokenizer: Tokenizer


def encode_generation(
    examples: Sequence[GenerationExample],
    windower: Windower,
    config: GenerationConfig,
    target_tokenizer: Tokenizer,
    *,
    labelled: bool,
) -> list[Sample]:
    """One sample per target, or, without `labelled`, one per source."""
    sources = windower.tokenize([example.source for example in examples])
    texts = [target for example in examples for target in example.targets] if labelled else []
    targets = iter(target_tokenizer.encode_batch(texts))
    make = _decoder_sample if config.head == "decoder" else _prefix_sample
    return [
        make(index, sources[index], target, windower, config, target_tokenizer)
        for index, example in enumerate(examples)
        for target in ([next(targets) for _ in example.targets] if labelled else [None])
    ]


def _prefix_sample(
    index: int,
    source: Tokens,
    target: Tokens | None,
    windower: Windower,
    config: GenerationConfig,
    tokenizer: Tokenizer,
) -> GenerationSample:
    """Source, separator and target in one sequence, which a causal encoder reads."""
    available = windower.length - 1 - config.max_new_tokens
    if available < 1:
        cause = f"sequences of {windower.length} tokens leave none for a source beside its target"
        raise ConfigError(cause, fix="use a smaller max_new_tokens")
    ids, cut = _truncate(source, windower, "source", available)
    end = _end_of(tokenizer)
    prompt = sequence = np.append(ids, end)
    targets = {}
    if target is not None:
        following = _following(target, windower, config, end)
        sequence = np.concatenate([prompt, following[:-1]])
        targets = {"positions": np.arange(len(prompt) - 1, len(sequence)), "next": following}
    return GenerationSample(
        example=index,
        sequences=(TokenSequence(ids=sequence, prefix=len(prompt) if config.prefix == "both" else 0),),
        features={"end": np.array([end])},
        targets=targets,
        fixed=np.arange(len(sequence)) >= len(prompt),
        truncated=cut,
        tokenizer=tokenizer,
    )


def _decoder_sample(
    index: int,
    source: Tokens,
    target: Tokens | None,
    windower: Windower,
    config: GenerationConfig,
    tokenizer: Tokenizer,
) -> GenerationSample:
    """The source with the encoder's special tokens, and the target for the decoder."""
    _truncate(source, windower, "source", windower.length - windower.reserved())
    (window,) = windower.single(source)
    end = _end_of(tokenizer)
    start = end if tokenizer.cls_id is None else tokenizer.cls_id
    targets = {}
    if target is not None:
        following = _following(target, windower, config, end)
        targets = {READ: np.concatenate([[start], following[:-1]]), NEXT: following}
    return GenerationSample(
        example=index,
        sequences=(window.sequence,),
        features={START: np.array([start]), END: np.array([end])},
        targets=targets,
        truncated=window.truncated,
        tokenizer=tokenizer,
    )


def _end_of(tokenizer: Tokenizer) -> int:
    if tokenizer.sep_id is None:
        raise ConfigError("the tokenizer has no token that ends a text", fix="use a model whose tokenizer has one")
    return tokenizer.sep_id


def _following(target: Tokens, windower: Windower, config: GenerationConfig, end: int) -> Integers:
    """The tokens to predict; a target that is cut off has no end token."""
    kept, shortened = _truncate(target, windower, "target", config.max_new_tokens)
    return kept if shortened else np.append(kept, end)


def _truncate(tokens: Tokens, windower: Windower, what: str, limit: int) -> tuple[Integers, bool]:
    """At most `limit` ids, and whether some were cut off; an error unless `data.long_text` is `truncate`."""
    if len(tokens) > limit and windower.long_text != "truncate":
        cause = f"a {what} has {len(tokens)} tokens; the limit is {limit}"
        raise InputError(cause, fix="use data.long_text=truncate, or shorten it")
    return tokens.ids[:limit].astype(np.int64), len(tokens) > limit
