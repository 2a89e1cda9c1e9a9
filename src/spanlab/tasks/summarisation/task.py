"""Extractive summarisation: the sentences of a text that say most, as BERTSUM chooses them.

A text enters, of any length, or a list of sentences; the chosen sentences leave with their characters, and the summary
they make. Every sentence is scored beside all others of its document, the best are taken up to a length, and one that
repeats a better one is passed over. Where only a written summary is given, training labels are the sentences that come
nearest to it by ROUGE. Scores stand beside those of the first sentences (lead) and of the best choice (oracle).

Shapes: K sentences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.encoder import Encoder
from spanlab.errors import ConfigError
from spanlab.metrics.generation import score_rouge
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.config import TaskConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.result import Mistake, Scores, about
from spanlab.tasks.sample import Sample
from spanlab.tasks.summarisation.data import (
    RougeOracle,
    SummaryExample,
    SummaryResult,
    SummarySentence,
    document_problems,
    key_problems,
    read_document,
)
from spanlab.tasks.summarisation.decode import Limit, LimitUnit, lead_sentences, select_sentences
from spanlab.tasks.summarisation.heads import SentenceHead
from spanlab.tasks.summarisation.windows import cut_document
from spanlab.tasks.validation import Problem, clip_repr
from spanlab.tasks.windows import Windower
from spanlab.text.sentences import sentence_spans
from spanlab.training.config import TrainingConfig

# ---- Config


@dataclass(frozen=True, kw_only=True)
class SummarisationConfig(TaskConfig):
    """What summarisation can be told besides."""

    limit: float | None = None
    """How long a summary may be; None: as many sentences as those of the training data have on average."""
    limit_by: LimitUnit = "sentences"
    """What `limit` counts: sentences, words, or the share of the text's words."""
    block_trigrams: bool = True
    """Whether a sentence is passed over that shares three words in a row with a better one."""
    sentence_vector: Literal["mean", "marker"] = "mean"
    """What stands for a sentence: the mean of its tokens, or a [CLS] of its own before it, as in BERTSUM."""
    inter_layers: int = 2
    """Transformer layers in which the sentences of a document see each other; 0: each is scored alone."""
    language: Literal["auto", "en", "zh", "ko"] = "auto"
    """Whose words ROUGE counts; auto goes by the script of the texts."""
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(lr=5e-5, batch_size=32, epochs=4.0, lr_factors={"heads": 10.0})
    )

    def __post_init__(self) -> None:
        if self.inter_layers < 0:
            raise ConfigError(f"'inter_layers' is {self.inter_layers}; it must not be negative")
        if self.limit is not None:
            Limit(amount=self.limit, unit=self.limit_by)
        elif self.limit_by != "sentences":
            raise ConfigError(f"'limit_by' is {self.limit_by}, and there is no 'limit'", fix="say how many")


# ---- the task


class Summarisation(Task[SummaryExample, SummaryResult]):
    """Texts to their key sentences."""

    name: ClassVar[str] = "summarisation"
    Config: ClassVar[type[TaskConfig]] = SummarisationConfig
    shape: ClassVar[FileShape] = FileShape(
        fields={
            "id": ("guid", "idx", "index", "paper_id"),
            "text": ("document", "article", "source", "content"),
            "summary": ("highlights", "abstract", "target"),
        },
        required=("text",),
        instead={"text": ("sentences", "source")},
    )

    config: SummarisationConfig

    @property
    @override
    def primary(self) -> str:
        return "rouge1"

    # ---- read

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        problems = list(document_problems(row))
        yield from problems
        if labelled and not any(problem.serious for problem in problems):
            yield from key_problems(row)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> SummaryExample:
        return read_document(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: SummarisationConfig, examples: Sequence[SummaryExample]) -> Self:
        """How long summaries are, unless that is given."""
        if config.limit is None:
            lengths = [_key_count(example) for example in examples]
            config = replace(config, limit=float(max(1, round(sum(lengths) / len(lengths)))))
        return cls(config, FittedState())

    # ---- encode

    @override
    def encode(self, examples: Sequence[SummaryExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """A sample a document, with all its windows: its sentences are to see each other."""
        tokens = windower.tokenize([example.text for example in examples])
        markers = self.config.sentence_vector == "marker"
        samples = []
        for number, example in enumerate(examples):
            windows = cut_document(example.spans, tokens[number], windower, markers=markers)
            labels_K = self._labels(example)[windows.sentences] if labelled else None
            samples.append(
                Sample(
                    example=number,
                    sequences=windows.sequences,
                    features={"places": windows.places, "counts": windows.counts, "sentences": windows.sentences},
                    targets={} if labels_K is None else {"labels": labels_K},
                    truncated=windows.truncated,
                )
            )
        return samples

    def _labels(self, example: SummaryExample) -> NDArray[np.float32]:
        """A number a sentence: 1 for those given as key, else for those that come nearest to a reference."""
        if example.labels is not None:
            return np.array(example.labels, np.float32)
        labels = np.zeros(len(example.spans), np.float32)
        oracle = RougeOracle(self._language(example))
        labels[oracle.choose(example.sentences, example.references, self._limit(example))] = 1.0
        return labels

    def _limit(self, example: SummaryExample) -> Limit:
        if example.limit is not None:
            return example.limit
        assert self.config.limit is not None, "learnt from the training data"
        return Limit(amount=self.config.limit, unit=self.config.limit_by)

    # ---- Head

    @override
    def head(self, encoder: Encoder) -> SentenceHead:
        return SentenceHead(encoder.config, layers=self.config.inter_layers)

    # ---- decode

    @override
    def decode(
        self,
        index: int,
        example: SummaryExample,
        samples: Sequence[Sample],
        outputs: Sequence[NDArray[np.float32]],
    ) -> SummaryResult:
        """The best sentences; what was cut off, or has no token, is not among them."""
        (sample,), (logits_K,) = samples, outputs
        logits = np.full(len(example.spans), -np.inf)
        logits[sample.features["sentences"].astype(np.int64)] = logits_K
        limit = self._limit(example)
        chosen = select_sentences(logits, example.sentences, limit, block_trigrams=self.config.block_trigrams)
        scores = 1 / (1 + np.exp(-logits))
        sentences = tuple(
            SummarySentence(
                start=example.spans[index][0], end=example.spans[index][1], score=float(scores[index]), index=index
            )
            for index in chosen
        )
        shared = about(index, example.id, samples)
        shared["windows"] = len(sample.sequences)
        return SummaryResult(**shared, sentences=sentences, summary=example.put_together(chosen), text=example.text)

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: SummaryExample) -> SummaryResult:
        """A summary from a file, whoever wrote it."""
        summary = row.values.get("summary")
        if not isinstance(summary, str):
            raise row.error(f"'summary' is {clip_repr(summary)}; it must be text", 'write {"summary": "…"}')
        name = str(index) if example.id is None else example.id
        return SummaryResult(id=name, sentences=(), summary=summary, text=example.text)

    @override
    def score(self, examples: Sequence[SummaryExample], results: Sequence[SummaryResult]) -> Scores:
        """ROUGE, and beside it that of the first sentences and of the best ones, under the same limit."""
        languages = tuple(map(self._language, examples))
        references, found = [example.references for example in examples], [result.summary for result in results]
        metrics = score_rouge(references, found, language=languages)
        beside = score_baselines(tuple(examples), tuple(map(self._limit, examples)), languages)
        return Scores(task=self.name, count=len(examples), metrics={**metrics, **beside})

    @override
    def mistake(self, example: SummaryExample, result: SummaryResult) -> Mistake | None:
        """A summary that has not all words of a reference."""
        likeness = RougeOracle(self._language(example)).likeness(result.summary, example.references)
        if likeness == 1.0:
            return None
        gold = " | ".join(example.references)
        return Mistake(badness=1 - likeness, shown=result.to_html(), gold=gold, predicted=result.summary)

    def _language(self, example: SummaryExample) -> str:
        return example.language if self.config.language == "auto" else self.config.language


@lru_cache(maxsize=2)
def score_baselines(
    examples: tuple[SummaryExample, ...], limits: tuple[Limit, ...], languages: tuple[str, ...]
) -> dict[str, float]:
    """`lead_rouge1`, …, `oracle_rouge1`, …; kept, because a run scores the same dev set many times."""
    oracles = {language: RougeOracle(language) for language in set(languages)}
    references = [example.references for example in examples]
    circumstances = list(zip(examples, limits, languages, strict=True))
    chosen = {
        "lead": [lead_sentences(one.sentences, limit) for one, limit, _ in circumstances],
        "oracle": [
            oracles[spoken].choose(one.sentences, one.references, limit) for one, limit, spoken in circumstances
        ],
    }
    scores: dict[str, float] = {}
    for name, numbers in chosen.items():
        summaries = [example.put_together(each) for example, each in zip(examples, numbers, strict=True)]
        rouge = score_rouge(references, summaries, language=languages)
        scores |= {f"{name}_{metric}": value for metric, value in rouge.items()}
    return scores


def _key_count(example: SummaryExample) -> int:
    """How many sentences a summary of this text has: those labelled, or those of its first reference."""
    return sum(example.labels) if example.labels is not None else len(sentence_spans(example.references[0]))
