"""Generation: a source text to a target text; summaries, titles and translations are all this.

`head=prefix` lets a causal encoder continue the source with the target; `head=decoder` puts a new decoder with
cross-attention over any encoder. Either way the loss is on the target alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from typing_extensions import override

from spanlab.decoding.config import Decoded, Ending
from spanlab.errors import ConfigError, clip_repr
from spanlab.metrics.generation import score_rouge
from spanlab.metrics.translation import bleu_tokens, score_bleu, score_chrf
from spanlab.tasks.base import Task
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.generation.config import GenerationConfig
from spanlab.tasks.generation.data import (
    GenerationExample,
    GenerationSample,
    encode_generation,
    generation_problems,
    parse_generation,
)
from spanlab.tasks.result import Mistake, Result, Scores, common_fields, empty_fields, result_id
from spanlab.tasks.sample import Sample
from spanlab.tasks.summarisation.decode import RougeOracle
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer
from spanlab.text.words import script_language

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.generation.decoder_head import DecoderHead
    from spanlab.tasks.head import Head


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
        labels="target",
        instead={"source": ("text",)},
    )

    config: GenerationConfig
    target_tokenizer: Tokenizer | None = None
    """That of the targets, if they have a vocabulary of their own."""

    @property
    @override
    def primary(self) -> str:
        return self.config.choose_by

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        return generation_problems(row, labelled=labelled)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> GenerationExample:
        return parse_generation(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: GenerationConfig, examples: Sequence[GenerationExample]) -> Self:
        """The task with the tokenizer of the targets."""
        if config.target_tokenizer is None:
            return super().fit(config, examples)
        words = Tokenizer.load(config.target_tokenizer)
        # It is saved with the model, which has no use for where it came from.
        task = super().fit(replace(config, target_tokenizer=Path(config.target_tokenizer).name), examples)
        task.target_tokenizer = words
        return task

    @override
    def save_files(self, folder: Path) -> None:
        if self.target_tokenizer is not None:
            self.target_tokenizer.save(folder)

    @override
    def load_files(self, folder: Path) -> None:
        if self.config.target_tokenizer is not None:
            self.target_tokenizer = Tokenizer.load(folder)

    @override
    def encode(self, examples: Sequence[GenerationExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """One sample per target, or, without `labelled`, one per source."""
        tokenizer = self.target_tokenizer or windower.tokenizer
        return encode_generation(examples, windower, self.config, tokenizer, labelled=labelled)

    # ---- head

    @override
    def head(self, encoder: "Encoder") -> "Head":
        from spanlab.tasks.generation.prefix_head import PrefixHead

        if self.config.head == "decoder":
            return self._decoder_head(encoder)
        if not encoder.config.causal:
            cause = f"this {encoder.config.architecture} encoder is bidirectional, so it cannot generate"
            fix = "use a causal model, such as one of the gpt recipe, or head=decoder"
            raise ConfigError(cause, fix=fix)
        return PrefixHead(encoder, self.config.decoding())

    def _decoder_head(self, encoder: "Encoder") -> "DecoderHead":
        from spanlab.encoder import ElmoEncoder
        from spanlab.tasks.generation.decoder_head import DecoderHead

        config, words = self.config, self.target_tokenizer
        shares = words is None and config.decoder.share_words
        if shares and isinstance(encoder, ElmoEncoder):
            cause = "an ELMo reads characters, and has no word table that a decoder could share"
            raise ConfigError(cause, fix="set decoder.share_words=false")
        decoder = config.decoder.for_encoder(
            encoder.config,
            vocab_size=encoder.config.vocab_size if words is None else words.vocab_size,
            max_positions=config.max_new_tokens + 1,
            shares=shares,
        )
        return DecoderHead(
            decoder,
            config.decoding(),
            memory_width=encoder.config.width,
            own_words=not shares,
            smoothing=config.label_smoothing,
        )

    def apply_decoding(self, head: "Head") -> None:
        """Make a head of this task search as the task's settings, perhaps changed since, say."""
        from spanlab.tasks.generation.decoder_head import DecoderHead
        from spanlab.tasks.generation.prefix_head import PrefixHead

        assert isinstance(head, DecoderHead | PrefixHead)
        head.decoding = self.config.decoding()

    # ---- decode

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
        """ROUGE, BLEU and chrF; with several targets, the best match counts."""
        texts = [result.text for result in results]
        references = [example.targets for example in examples]
        languages = list(map(self._language, examples))
        metrics = {
            **score_rouge(references, texts, language=languages),
            **score_bleu(
                [
                    [bleu_tokens(target, language) for target in targets]
                    for targets, language in zip(references, languages, strict=True)
                ],
                list(map(bleu_tokens, texts, languages)),
                smooth=True,
            ),
            **score_chrf(references, texts),
        }
        return Scores(task=self.name, count=len(examples), metrics=metrics)

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
