"""Generation: a source text to a target text on a causal encoder; summaries, titles and translations are all this.

A sequence is the source, the tokenizer's separator, the target, and the separator again as end token. The loss is on
the target alone. The tokens of the source see each other in both directions (`prefix=both`) or, as everywhere in GPT,
only what came before them (`prefix=causal`); the target always looks back. There are no windows: a target is generated
from the whole source, so a source that is too long is an error, or truncated on request.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.decoding.generate import generate_ids
from spanlab.decoding.sampling import Decoded, DecodingConfig, Ending
from spanlab.encoder import CausalLMHead, Encoder
from spanlab.errors import ConfigError, InputError, clip_repr
from spanlab.metrics.generation import score_bleu, score_rouge
from spanlab.objectives.causal_lm import causal_lm_loss
from spanlab.objectives.objective import ObjectiveLoss, token_metrics
from spanlab.tasks.base import Encoded, Head, StandardHead, Task
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.result import Mistake, Result, Scores, common_fields, empty_fields, result_id
from spanlab.tasks.sample import Sample, SampleBatch, TensorBatch, TokenSequence
from spanlab.tasks.summarisation.decode import RougeOracle
from spanlab.tasks.validation import Problem, text_problems
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer
from spanlab.text.words import script_language, word_spans
from spanlab.training.config import TrainingConfig

# ---- Config


@dataclass(frozen=True, kw_only=True)
class GenerationConfig(TaskConfig):
    """Settings of generation."""

    prefix: Literal["both", "causal"] = "both"
    """Whether the tokens of the source see each other in both directions, or only what came before them."""
    max_new_tokens: int = 64
    """The longest target, in tokens; the source has the rest of `data.length`."""
    beams: int = 1
    """The beam size of prediction; 1 is greedy search."""
    length_penalty: float = 1.0
    """With several beams; above 0 favours long targets."""
    language: Literal["auto", "en", "zh", "ko"] = "auto"
    """The language whose words ROUGE counts; auto: by the script of the targets."""
    data: TaskDataConfig = field(default_factory=lambda: TaskDataConfig(length=512, long_text="error"))
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=6.25e-5, batch_size=32, epochs=3.0))

    def __post_init__(self) -> None:
        super().__post_init__()
        self.decoding()  # checks its own settings
        if self.data.long_text == "windows":
            cause = "a target is generated from the whole source, so there are no windows over it"
            raise ConfigError(cause, fix="use data.long_text=truncate or error")
        if self.max_new_tokens + 2 > self.data.length:
            cause = (
                f"max_new_tokens {self.max_new_tokens} leaves no tokens for a source in data.length {self.data.length}"
            )
            raise ConfigError(cause, fix="use a smaller max_new_tokens or a larger data.length")

    def decoding(self) -> DecodingConfig:
        """The settings with which targets are generated."""
        return DecodingConfig(
            max_new_tokens=self.max_new_tokens,
            temperature=0.0,
            beams=self.beams,
            length_penalty=self.length_penalty,
        )


# ---- read

_SOURCES = ("source", "text")


@dataclass(frozen=True, kw_only=True)
class GenerationExample:
    """A source and its reference targets, any one of which is correct."""

    id: str | None
    source: str
    targets: tuple[str, ...] = ()


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


# ---- Head


@dataclass(frozen=True, kw_only=True, eq=False)
class NextTokens:
    """The hidden states of the positions before target tokens, and the output embeddings."""

    hidden_KD: Tensor
    word_table_VE: Tensor


class GenerationHead(Head):
    """The language model head of a causal encoder, whose output embeddings are the word table."""

    generates = True

    def __init__(self, encoder: Encoder, decoding: DecodingConfig) -> None:
        super().__init__()
        self.layer = CausalLMHead(encoder.config)
        self.decoding = decoding

    @property
    @override
    def standard(self) -> StandardHead:
        """The head of a causal model in transformers."""
        return StandardHead(kind="clm", layer=self.layer)

    @override
    def count(self, batch: SampleBatch) -> int:
        """The tokens of the targets, end tokens included."""
        return sum(len(sample.targets["next"]) for sample in batch.samples)

    @override
    def forward(self, encoded: Encoded) -> NextTokens:
        """The hidden states before each token of the targets."""
        assert encoded.word_table_VE is not None, "the task accepts only causal encoders"
        batch = encoded.batch
        counts_B = batch.lengths_B.new_tensor([len(sample.targets["next"]) for sample in batch.batch.samples])
        position_K = batch.targets["positions"] + torch.repeat_interleave(batch.starts, counts_B)
        return NextTokens(hidden_KD=encoded.hidden_ND.index_select(0, position_K), word_table_VE=encoded.word_table_VE)

    @override
    def loss(self, states: NextTokens, batch: TensorBatch) -> ObjectiveLoss:
        """Cross-entropy, summed over the tokens of the targets."""
        return causal_lm_loss(self.layer, states.hidden_KD, states.word_table_VE, batch.targets["next"])

    @override
    def metrics(self, loss: ObjectiveLoss) -> dict[str, float]:
        """Mean loss, accuracy and perplexity of a token."""
        return token_metrics(loss)

    @override
    def generate(self, encoder: Encoder, batch: TensorBatch) -> list[Decoded]:
        prompts = [sequence.ids.tolist() for sequence in batch.batch.sequences]
        config = replace(self.decoding, stop_ids=(int(batch.features["end"][0]),))
        return generate_ids(encoder, self.layer, prompts, config, prompts_see_all=batch.prefixes_B is not None)

    @override
    def split(self, decoded: list[Decoded], batch: TensorBatch) -> list[Decoded]:
        return decoded


# ---- decode


@dataclass(frozen=True, kw_only=True)
class GenerationResult(Result):
    """The text generated for one source."""

    text: str
    ended: Ending = "stop"
    """Why generation ended: at the end token, at `max_new_tokens`, or at the last position."""
    log_probability: float | None = None
    """Of the text under the model; None for the text of another system."""
    source: str = field(default="", metadata={"json": False})

    def to_html(self) -> str:
        """The source and the generated text."""
        return f"<div class='generation'><p>{escape(self.source)}</p><p><b>{escape(self.text)}</b></p></div>"


# ---- the task


class Generation(Task[GenerationExample, GenerationResult]):
    """Source texts to target texts."""

    name: ClassVar[str] = "generation"
    Config: ClassVar[type[TaskConfig]] = GenerationConfig
    shape: ClassVar[FileShape] = FileShape(
        fields={
            "id": ("guid", "idx", "index", "paper_id"),
            "source": ("text", "document", "article", "src"),
            "target": ("summary", "highlights", "translation", "tgt"),
        },
        required=("source",),
        instead={"source": ("text",)},
    )

    config: GenerationConfig

    @property
    @override
    def primary(self) -> str:
        return "rougeL"

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        yield from text_problems(Row(values={"source": _joined(_source(row))}), "source")
        if labelled:
            yield from _target_problems(row)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> GenerationExample:
        name = row.values.get("id", row.values.get("paper_id"))
        targets = tuple(_alternatives(row.values["target"])) if labelled else ()
        return GenerationExample(id=None if name is None else str(name), source=_joined(_source(row)), targets=targets)

    @override
    def encode(self, examples: Sequence[GenerationExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """One sample per target, or, without `labelled`, one per source."""
        sources = [
            tokens.ids.astype(np.int64) for tokens in windower.tokenize([example.source for example in examples])
        ]
        texts = [target for example in examples for target in example.targets] if labelled else []
        targets = iter([tokens.ids.astype(np.int64) for tokens in windower.tokenize(texts)])
        samples: list[Sample] = []
        for index, example in enumerate(examples):
            ids, cut = self._truncate(sources[index], windower, "source", self._source_length(windower))
            for target in [next(targets) for _ in example.targets] if labelled else [None]:
                samples.append(self._sample(index, ids, target, windower, cut=cut))
        return samples

    def _source_length(self, windower: Windower) -> int:
        """The tokens of a sequence that are left for a source beside the separator and the longest target."""
        available = windower.length - 1 - self.config.max_new_tokens
        if available < 1:
            cause = f"sequences of {windower.length} tokens leave none for a source beside its target"
            raise ConfigError(cause, fix="use a smaller max_new_tokens")
        return available

    def _truncate(self, ids: Integers, windower: Windower, what: str, limit: int) -> tuple[Integers, bool]:
        """At most `limit` ids, and whether some were cut off; an error unless `data.long_text` is `truncate`."""
        if len(ids) > limit and windower.long_text != "truncate":
            cause = f"a {what} has {len(ids)} tokens; the limit is {limit}"
            raise InputError(cause, fix="use data.long_text=truncate, or shorten it")
        return ids[:limit], len(ids) > limit

    def _sample(
        self, index: int, source: Integers, target: Integers | None, windower: Windower, *, cut: bool
    ) -> GenerationSample:
        end = windower.tokenizer.sep_id
        if end is None:
            raise ConfigError("the tokenizer has no token that ends a text", fix="use a model whose tokenizer has one")
        prompt = np.append(source, end)
        targets = {}
        sequence = prompt
        if target is not None:
            kept, shortened = self._truncate(target, windower, "target", self.config.max_new_tokens)
            following = kept if shortened else np.append(kept, end)
            sequence = np.concatenate([prompt, following[:-1]])
            targets = {"positions": np.arange(len(prompt) - 1, len(sequence)), "next": following}
        return GenerationSample(
            example=index,
            sequences=(TokenSequence(ids=sequence, prefix=len(prompt) if self.config.prefix == "both" else 0),),
            features={"end": np.array([end])},
            targets=targets,
            fixed=np.arange(len(sequence)) >= len(prompt),
            truncated=cut,
            tokenizer=windower.tokenizer,
        )

    # ---- head

    @override
    def head(self, encoder: Encoder) -> GenerationHead:
        if not encoder.config.causal:
            cause = f"this {encoder.config.architecture} encoder is bidirectional, so it cannot generate"
            raise ConfigError(cause, fix="use a causal model, such as one of the gpt recipe")
        return GenerationHead(encoder, self.config.decoding())

    @override
    def decode(
        self, index: int, example: GenerationExample, samples: Sequence[Sample], outputs: Sequence[Decoded]
    ) -> GenerationResult:
        (sample,), (decoded,) = samples, outputs
        assert isinstance(sample, GenerationSample)
        return GenerationResult(
            **common_fields(index, example.id, samples),
            text=sample.tokenizer.decode(decoded.ids, skip_special_tokens=True).strip(),
            ended=decoded.ended,
            log_probability=decoded.log_probability,
            source=example.source,
        )

    @override
    def empty_result(self, index: int, example: GenerationExample) -> GenerationResult:
        return GenerationResult(**empty_fields(index, example.id), text="", source=example.source)

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: GenerationExample) -> GenerationResult:
        """The text of any system, from a file."""
        text = row.values.get("text")
        if not isinstance(text, str):
            raise row.error(f"'text' is {clip_repr(text)}; it must be text", 'write {"text": "…"}')
        return GenerationResult(id=result_id(index, example.id), text=text, source=example.source)

    @override
    def score(self, examples: Sequence[GenerationExample], results: Sequence[GenerationResult]) -> Scores:
        """ROUGE and BLEU; with several targets, the best match counts."""
        texts = [result.text for result in results]
        references = [example.targets for example in examples]
        metrics = score_rouge(references, texts, language=list(map(self._language, examples)))
        reference_words = [[_words(target) for target in targets] for targets in references]
        bleu = score_bleu(reference_words, list(map(_words, texts)))
        return Scores(task=self.name, count=len(examples), metrics={**metrics, **bleu})

    @override
    def mistake(self, example: GenerationExample, result: GenerationResult) -> Mistake | None:
        """A text without all words of a target."""
        rouge1 = RougeOracle(self._language(example)).rouge1(result.text, example.targets)
        if rouge1 == 1.0:
            return None
        gold = " | ".join(example.targets)
        return Mistake(badness=1 - rouge1, shown=escape(example.source), gold=gold, predicted=result.text)

    def _language(self, example: GenerationExample) -> str:
        return script_language(example.targets) if self.config.language == "auto" else self.config.language


def _words(text: str) -> list[str]:
    """The tokens that BLEU counts: words and punctuation marks as they are written, each Han character alone."""
    return [text[start:end] for start, end in word_spans(text)]
