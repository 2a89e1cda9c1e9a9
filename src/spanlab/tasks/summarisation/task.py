"""Extractive summarisation: the most important sentences of a text, as BERTSUM selects them.

A text of any length or a list of sentences enters; the selected sentences with their offsets, and the summary, leave.
All sentences of a document are scored together, the best are taken up to a limit, and sentences that repeat a better
one are skipped. If only a reference summary is given, the training labels are the sentences closest to it by ROUGE (the
oracle). Scores are reported beside those of two baselines: the first sentences (lead) and the oracle.

Shapes: K sentences.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from spanlab.errors import ConfigError
from spanlab.metrics.generation import score_rouge
from spanlab.metrics.score_counts import ScoreCounts
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.host_head import HostHead
from spanlab.tasks.result import Mistake, Scores, common_fields, empty_fields
from spanlab.tasks.sample import Sample
from spanlab.tasks.summarisation.config import Limit, SummarisationConfig
from spanlab.tasks.summarisation.data import (
    SummaryExample,
    SummaryResult,
    SummarySentence,
    example_problems,
    parse_example,
    read_prediction,
)
from spanlab.tasks.summarisation.decode import RougeOracle, lead_sentences, select_sentences
from spanlab.tasks.summarisation.host_sentences import sentence_logits
from spanlab.tasks.summarisation.windows import cut_document
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import Windower
from spanlab.text.sentences import sentence_spans

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.summarisation.heads import SentenceHead


class Summarisation(Task[SummaryExample, SummaryResult]):
    """The task `summarisation`."""

    name = "summarisation"
    Config = SummarisationConfig
    shape = FileShape(
        fields={
            "id": ("guid", "idx", "index", "paper_id"),
            "text": ("document", "article", "source", "content"),
            "summary": ("highlights", "abstract", "target"),
        },
        required=("text",),
        instead={"text": ("sentences", "source")},
        optional=("limit", "limit_by"),
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
        return example_problems(row, labelled=labelled)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> SummaryExample:
        return parse_example(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: SummarisationConfig, examples: Sequence[SummaryExample]) -> Self:
        """The limit: the mean length of the training summaries, unless it is given."""
        if config.limit is None:
            lengths = [_summary_length(example) for example in examples]
            config = replace(config, limit=float(max(1, round(sum(lengths) / len(lengths)))))
        return cls(config, FittedState())

    @override
    def check_fitted(self) -> None:
        if self.config.limit is None:
            raise ConfigError("'settings.limit' is not decided", fix="restore the file")

    # ---- encode

    @override
    def encode(self, examples: Sequence[SummaryExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """A sample a document, with all its windows: its sentences attend to each other."""
        tokens = windower.tokenize([example.text for example in examples])
        markers = self.config.sentence_vector == "marker"
        samples = []
        for index, example in enumerate(examples):
            if not labelled and not len(tokens[index]):  # characters that the tokenizer drops: the empty result
                continue
            windows, features, sentence_N = cut_document(example.spans, tokens[index], windower, markers=markers)
            label_K = self._labels(example) if labelled else np.zeros(len(example.spans), np.float32)
            is_summary_N = label_K[sentence_N] > 0
            samples.append(
                Sample(
                    example=index,
                    sequences=tuple(window.sequence for window in windows),
                    features=features,
                    targets={"labels": label_K[features["sentences"]]} if labelled else {},
                    fixed=np.concatenate([window.flags(first=is_summary_N) for window in windows]),
                    truncated=windows[0].truncated,
                )
            )
        return samples

    def _labels(self, example: SummaryExample) -> NDArray[np.float32]:
        """(K,) 1 for the sentences labelled so, else for those that the oracle chooses."""
        if example.labels is not None:
            return np.array(example.labels, np.float32)
        labels = np.zeros(len(example.spans), np.float32)
        oracle = RougeOracle(self._language(example))
        labels[oracle.choose(example.sentences, example.references, self._limit(example))] = 1.0
        return labels

    def _limit(self, example: SummaryExample) -> Limit:
        if example.limit is not None:
            return example.limit
        assert self.config.limit is not None, "decided by `fit`"
        return Limit(amount=self.config.limit, unit=self.config.limit_by)

    # ---- head

    @override
    def head(self, encoder: "Encoder") -> "SentenceHead":
        from spanlab.tasks.summarisation.heads import SentenceHead

        return SentenceHead(encoder.config, layers=self.config.inter_layers)

    @property
    @override
    def host_head(self) -> HostHead:
        return sentence_logits

    # ---- decode

    @override
    def decode(
        self,
        index: int,
        example: SummaryExample,
        samples: Sequence[Sample],
        outputs: Sequence[NDArray[np.float32]],
    ) -> SummaryResult:
        """The best sentences; those that were truncated, or have no token, are not chosen."""
        if not samples:
            return self.empty_result(index, example)
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
        shared = common_fields(index, example.id, samples)
        shared["windows"] = len(sample.sequences)
        return SummaryResult(**shared, sentences=sentences, summary=example.summary(chosen), text=example.text)

    @override
    def empty_result(self, index: int, example: SummaryExample) -> SummaryResult:
        return SummaryResult(**empty_fields(index, example.id), sentences=(), summary="", text=example.text)

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: SummaryExample) -> SummaryResult:
        return read_prediction(row, index, example)

    @override
    def score(self, examples: Sequence[SummaryExample], results: Sequence[SummaryResult]) -> Scores:
        """ROUGE, and that of lead and oracle under the same limit."""
        languages = tuple(map(self._language, examples))
        references, predicted = [example.references for example in examples], [result.summary for result in results]
        metrics = score_rouge(references, predicted, language=languages)
        baselines = _score_baselines(tuple(examples), tuple(map(self._limit, examples)), languages)
        return Scores(task=self.name, count=len(examples), metrics={**metrics, **baselines})

    @override
    def score_counts(self, examples: Sequence[SummaryExample], results: Sequence[SummaryResult]) -> ScoreCounts:
        """ROUGE-1 of each document."""
        scores = [
            score_rouge([example.references], [result.summary], language=self._language(example))[self.primary]
            for example, result in zip(examples, results, strict=True)
        ]
        return ScoreCounts.of_scores(self.primary, scores)

    @override
    def mistake(self, example: SummaryExample, result: SummaryResult) -> Mistake | None:
        """A summary whose ROUGE-1 is below 100."""
        rouge1 = RougeOracle(self._language(example)).rouge1(result.summary, example.references)
        if rouge1 == 1.0:
            return None
        gold = " | ".join(example.references)
        return Mistake(badness=1 - rouge1, shown=result.to_html(), gold=gold, predicted=result.summary)

    def _language(self, example: SummaryExample) -> str:
        return example.language if self.config.language == "auto" else self.config.language


@lru_cache(maxsize=2)
def _score_baselines(
    examples: tuple[SummaryExample, ...], limits: tuple[Limit, ...], languages: tuple[str, ...]
) -> dict[str, float]:
    """`lead_rouge1`, …, `oracle_rouge1`, …; cached, because a run scores the same dev set many times."""
    oracles = {language: RougeOracle(language) for language in set(languages)}
    references = [example.references for example in examples]
    chosen = {
        "lead": [lead_sentences(example.sentences, limit) for example, limit in zip(examples, limits, strict=True)],
        "oracle": [
            oracles[language].choose(example.sentences, example.references, limit)
            for example, limit, language in zip(examples, limits, languages, strict=True)
        ],
    }
    scores: dict[str, float] = {}
    for name, indices in chosen.items():
        summaries = [example.summary(sentences) for example, sentences in zip(examples, indices, strict=True)]
        rouge = score_rouge(references, summaries, language=languages)
        scores |= {f"{name}_{metric}": value for metric, value in rouge.items()}
    return scores


def _summary_length(example: SummaryExample) -> int:
    """The sentences of the summary: those labelled, or those of the first reference."""
    return sum(example.labels) if example.labels is not None else len(sentence_spans(example.references[0]))
