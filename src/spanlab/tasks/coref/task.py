"""Coreference resolution, end to end and coarse to fine (Lee et al. 2018; Joshi et al. 2019).

Texts enter; clusters of mentions of the same entity leave. A document is one sample: its segments are encoded
independently, and the head sees all of them. Candidates are spans within a sentence; the best are kept, and each gets
an antecedent or none. In training, a long document is represented by a range of its segments, drawn in every epoch.

If the training data has clusters of one mention (singletons), mention scores have a loss of their own and singletons
are predicted; otherwise, mentions without a link are left out.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Self

import numpy as np
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.errors import ConfigError, InputError
from spanlab.metrics.coref import conll_f1_counts, gap_f1_counts, score_clusters, score_gap
from spanlab.metrics.score_counts import ScoreCounts
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.coref.config import CorefConfig
from spanlab.tasks.coref.data import (
    CorefExample,
    CorefResult,
    Range,
    cluster_problems,
    example_problems,
    parse_example,
)
from spanlab.tasks.coref.decode import build_clusters
from spanlab.tasks.coref.host_links import document_links
from spanlab.tasks.coref.links import Links
from spanlab.tasks.coref.pronouns import gender
from spanlab.tasks.coref.samples import (
    Candidates,
    DocumentArrays,
    cut_overlapping,
    cut_segments,
    given_candidates,
    list_candidates,
)
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.host_head import HostHead
from spanlab.tasks.result import Mistake, Scores, empty_fields, result_id
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.units import LabelUnits, choose_units, encode_units, tokens_in_spans
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.whole_words import are_mostly_whole

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.coref.heads import CorefHead

THRESHOLD = "pronoun"
"""The name of the threshold above which he and she have an antecedent; a model without it treats them like others."""
_CHOICES = (0.0, -1.0, -2.0, -4.0, -8.0)


class Coreference(Task[CorefExample, CorefResult]):
    """The task `coref`."""

    name = "coref"
    Config = CorefConfig
    shape = FileShape(
        fields={"text": ("Text",)},
        required=("text",),
        labels="clusters",
        optional=("sentences", "words", "speakers", "genre", "mentions"),
    )

    config: CorefConfig

    @property
    @override
    def primary(self) -> str:
        """The mean of MUC, B³ and CEAFe."""
        return "conll_f1"

    # ---- read

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        return example_problems(row, labelled=labelled)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> CorefExample:
        return parse_example(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: CorefConfig, examples: Sequence[CorefExample]) -> Self:
        """The units of mentions, and whether there are singletons, speakers and genres."""
        if not any(example.clusters for example in examples):
            raise InputError("the training data has no cluster", fix="give documents with 'clusters'")
        spans = [[span for cluster in example.clusters for span in cluster] for example in examples]
        texts = [example.text for example in examples]
        if config.units == "auto":
            config = replace(config, units=choose_units(texts, spans))
        if config.whole_words is None:
            config = replace(config, whole_words=are_mostly_whole(texts, spans))
        if config.singletons is None:
            singletons = any(len(cluster) == 1 for example in examples for cluster in example.clusters)
            config = replace(config, singletons=singletons)
        if config.speakers is None:
            config = replace(config, speakers=any(example.speakers for example in examples))
        genres = sorted({example.genre for example in examples if example.genre is not None})
        if config.genres is None:
            config = replace(config, genres=len(genres) > 1)
        return cls(config, FittedState(entity_labels=tuple(genres) if config.genres else ()))

    @override
    def check_fitted(self) -> None:
        if self.config.units == "auto":
            raise ConfigError("'settings.units' is not decided", fix="restore the file")

    # ---- encode

    @override
    def encode(self, examples: Sequence[CorefExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        assert self.config.units != "auto", "decided by `fit`"
        all_units = encode_units(windower.tokenizer, [example.text for example in examples], self.config.units)
        max_segments = self.config.layers.max_segments if labelled else 0
        return [
            self._arrays(index, example, units, windower, labelled=labelled).for_training(max_segments)
            for index, (example, units) in enumerate(zip(examples, all_units, strict=True))
            if labelled or len(units)  # a text of characters that are no word has the empty result
        ]

    def _arrays(
        self, index: int, example: CorefExample, units: LabelUnits, windower: Windower, *, labelled: bool
    ) -> DocumentArrays:
        if not len(units):
            raise example.row.error("the document has no word", "leave it out")
        sentences = example.sentence_spans
        segments, truncated = self._segments(units, sentences, windower)
        if example.mentions is not None:
            candidates = given_candidates(units, example.mentions)
        else:
            given = () if example.question is None else example.question.spans
            max_width, whole_words = self.config.layers.span.max_width, self.config.whole_words is not False
            candidates = list_candidates(units, sentences, max_width, given, whole_words=whole_words)
        if truncated:
            candidates = candidates.select(candidates.last < segments[-1].first.end)
        genres = self.fitted.entity_labels
        return DocumentArrays(
            example=index,
            segments=segments,
            candidates=candidates,
            speakers=_speakers(example, units),
            genre=genres.index(example.genre) + 1 if example.genre in genres else 0,
            clusters=self._gold(example, units, candidates) if labelled else None,
            is_mention=tokens_in_spans(units.tokens, chain.from_iterable(example.clusters)) if labelled else None,
            truncated=truncated,
        )

    def _segments(
        self, units: LabelUnits, sentences: Sequence[Range], windower: Windower
    ) -> tuple[list[InputWindow], bool]:
        """The segments of a document, and whether text was cut off."""
        tokens, size = units.tokens, windower.length - windower.reserved()
        if self.config.segments == "overlap":
            windows = cut_overlapping(len(tokens), size)
        else:
            begins = np.searchsorted(tokens.starts, [start for start, _ in sentences[1:]])
            windows = cut_segments(len(tokens), size, begins, np.flatnonzero(tokens.word_starts)[1:])
        if len(windows) > 1 and windower.long_text == "error":
            cause = f"a document has {len(tokens)} tokens, but a segment holds {size}"
            raise InputError(cause, fix="use data.long_text=windows, or shorten the document")
        truncated = len(windows) > 1 and windower.long_text == "truncate"
        return windower.in_windows(tokens, windows[:1] if truncated else windows), truncated

    def _gold(self, example: CorefExample, units: LabelUnits, candidates: Candidates) -> Integers:
        """(C,) the cluster of each candidate, from 1; 0 for none. Mentions wider than candidates are left out."""
        mentions = [span for cluster in example.clusters for span in cluster]
        self._check_units(example, units, mentions)
        clusters = np.repeat(np.arange(len(example.clusters)) + 1, [len(cluster) for cluster in example.clusters])
        indices = candidates.find(mentions)
        cluster_C = np.zeros(len(candidates), dtype=np.int64)
        cluster_C[indices[indices >= 0]] = clusters[indices >= 0]
        return cluster_C

    def _check_units(self, example: CorefExample, units: LabelUnits, mentions: Sequence[Range]) -> None:
        """Reject mentions that cannot be candidates, unless data.bad_rows=drop."""
        if self.config.data.bad_rows == "drop":
            return
        starts, ends = (np.array([span[edge] for span in mentions], dtype=np.int64) for edge in (0, 1))
        first, _ = units.find(starts, ends)
        for index in np.flatnonzero(first < 0).tolist():
            text = example.text[starts[index] : ends[index]]
            cause = f"the mention {text!r} ({starts[index]} to {ends[index]}) begins or ends inside a unit"
            raise example.row.error(cause, "correct it, or use units=character or data.bad_rows=drop")

    # ---- head

    @override
    def head(self, encoder: "Encoder") -> "CorefHead":
        from spanlab.tasks.coref.heads import CorefHead

        config = self.config
        return CorefHead(
            encoder.config,
            config.layers,
            speakers=bool(config.speakers),
            genres=len(self.fitted.entity_labels) + 1 if config.genres else 0,
            overlap=config.segments == "overlap",
            mention_loss=config.mention_loss if config.singletons else 0.0,
        )

    @property
    @override
    def host_head(self) -> HostHead:
        return document_links(self.config.layers, overlap=self.config.segments == "overlap")

    # ---- decode

    @override
    def decode(
        self, index: int, example: CorefExample, samples: Sequence[Sample], outputs: Sequence[Links]
    ) -> CorefResult:
        """Clusters of all linked mentions, and of single ones if the model predicts them."""
        if not samples:
            return self.empty_result(index, example)
        (sample,), (links,) = samples, outputs
        clusters, cluster_scores, mentions = build_clusters(
            example.text,
            sample.features,
            links,
            singletons=bool(self.config.singletons),
            pronoun_threshold=self.fitted.thresholds.get(THRESHOLD),
            pronoun_reach=self.config.pronoun_reach,
        )
        return CorefResult(
            id=result_id(index, example.id),
            windows=len(sample.sequences),
            truncated=sample.truncated,
            clusters=clusters,
            cluster_scores=cluster_scores,
            mentions=mentions,
            source=example.text,
            sentences=example.sentence_spans,
            words=example.words,
        )

    @override
    def empty_result(self, index: int, example: CorefExample) -> CorefResult:
        shared = empty_fields(index, example.id)
        return CorefResult(**shared, clusters=(), cluster_scores=(), mentions=(), source=example.text)

    @override
    def tune(
        self, examples: Sequence[CorefExample], samples: Sequence[Sequence[Sample]], outputs: Sequence[Sequence[Links]]
    ) -> Self:
        """The threshold of pronouns with the best CoNLL F1, or none if that is better; of equals the lowest."""
        gold = [example.clusters for example in examples]
        if not any(gold):
            return self
        choices = [type(self)(self.config, replace(self.fitted, thresholds=found)) for found in _threshold_choices()]
        documents = list(enumerate(zip(examples, samples, outputs, strict=True)))

        def conll_f1(task: Self) -> float:
            predicted = [task.decode(index, *document).clusters for index, document in documents]
            return score_clusters(gold, predicted)["conll_f1"]

        return max(choices, key=conll_f1)

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: CorefExample) -> CorefResult:
        for problem in cluster_problems(example.text, row.values):
            if problem.serious:
                raise problem.error(row)
        values = {"text": example.text, "clusters": row.values.get("clusters")}
        predicted = parse_example(Row(values=values), labelled=True)
        return CorefResult(
            id=result_id(index, example.id),
            clusters=predicted.clusters,
            cluster_scores=(1.0,) * len(predicted.clusters),
            mentions=(),
            source=example.text,
        )

    @override
    def score(self, examples: Sequence[CorefExample], results: Sequence[CorefResult]) -> Scores:
        """MUC, B³, CEAFe, LEA, mentions and the mean of the first three; on questions of GAP, its scores."""
        if _are_questions(examples):
            return Scores(task=self.name, count=len(examples), metrics=_score_questions(examples, results))
        gold, predicted = [example.clusters for example in examples], [result.clusters for result in results]
        metrics = score_clusters(gold, predicted)
        if self.config.singletons:
            linked = score_clusters(gold, predicted, singletons=False)
            metrics["conll_f1_without_singletons"] = linked["conll_f1"]
        return Scores(task=self.name, count=len(examples), metrics=metrics)

    @override
    def score_counts(self, examples: Sequence[CorefExample], results: Sequence[CorefResult]) -> ScoreCounts:
        """Of CoNLL F1; on questions of GAP, of F1."""
        if _are_questions(examples):
            gold, predicted, _ = _question_answers(examples, results)
            return gap_f1_counts(gold, predicted)
        return conll_f1_counts([example.clusters for example in examples], [result.clusters for result in results])

    @override
    def mistake(self, example: CorefExample, result: CorefResult) -> Mistake | None:
        """A document whose CoNLL F1 is below 100."""
        scores = score_clusters([example.clusters], [result.clusters])
        if scores["conll_f1"] >= 100.0:
            return None
        gold, predicted = (_format(example.text, clusters) for clusters in (example.clusters, result.clusters))
        return Mistake(badness=100.0 - scores["conll_f1"], shown=result.to_html(), gold=gold, predicted=predicted)


def _threshold_choices() -> list[dict[str, float]]:
    """None, and the thresholds; the lowest first, as pronouns of a person are almost never a first mention."""
    return [*({THRESHOLD: value} for value in sorted(_CHOICES)), {}]


def _are_questions(examples: Sequence[CorefExample]) -> bool:
    """Whether all examples are questions of GAP."""
    return bool(examples) and all(example.question is not None for example in examples)


def _score_questions(examples: Sequence[CorefExample], results: Sequence[CorefResult]) -> dict[str, float]:
    """The scores of GAP."""
    return score_gap(*_question_answers(examples, results))


def _question_answers(
    examples: Sequence[CorefExample], results: Sequence[CorefResult]
) -> tuple[list[tuple[bool, bool]], list[tuple[bool, bool]], list[str]]:
    """Gold answers, predicted answers and genders."""
    gold, predicted, genders = [], [], []
    for example, result in zip(examples, results, strict=True):
        assert example.question is not None
        gold.append(example.question.gold or (False, False))
        predicted.append(example.question.answer(example.text, result.clusters))
        start, end = example.question.pronoun
        genders.append(gender(example.text[start:end]) or "")
    return gold, predicted, genders


def _speakers(example: CorefExample, units: LabelUnits) -> Integers:
    """(N,) the speaker of each token, from 1; 0 for none."""
    speakers = np.zeros(len(units.tokens), dtype=np.int64)
    indices = {name: index for index, name in enumerate(dict.fromkeys(turn[2] for turn in example.speakers), 1)}
    for start, end, name in example.speakers:
        first, stop = np.searchsorted(units.tokens.starts, [start, end])
        speakers[first:stop] = indices[name]
    return speakers


def _format(text: str, clusters: Sequence[Sequence[Range]]) -> str:
    """The clusters in words, the longest first."""
    longest = sorted(clusters, key=len, reverse=True)[:12]
    return " · ".join(", ".join(text[start:end] for start, end in cluster) for cluster in longest)
