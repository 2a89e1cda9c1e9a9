"""Coreference, end to end and coarse to fine (Lee et al. 2018; Joshi et al. 2019): which mentions mean the same.

A document is one sample: its segments are encoded by themselves, and everything after that sees all of them. Candidates
are spans within a sentence; the best are kept, and each is given an earlier mention or none. In training a long
document shows a window of its segments, drawn anew each time.

Where the training data has clusters of one mention, mention scores are trained by themselves and such clusters are
given; where it has none, a mention that links to nothing is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from spanlab.arrays import Integers
from spanlab.encoder import Encoder
from spanlab.errors import ConfigError, InputError
from spanlab.metrics.coref import score_clusters, score_gap
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.coref.config import CorefLayers
from spanlab.tasks.coref.data import (
    CorefExample,
    cluster_problems,
    document_problems,
    gender,
    read_document,
    sentences_of,
)
from spanlab.tasks.coref.decode import CorefResult, Links, join_links
from spanlab.tasks.coref.heads import CorefHead
from spanlab.tasks.coref.samples import (
    Candidates,
    DocumentArrays,
    cut_overlapping,
    cut_segments,
    list_candidates,
    only_sure,
)
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.result import Mistake, Scores
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.representation import SpanConfig
from spanlab.tasks.spans.units import LabelUnits, choose_units, encode_units
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.training.config import TrainingConfig

# ---- Config


@dataclass(frozen=True, kw_only=True)
class CorefConfig(TaskConfig):
    """Coreference; the defaults are those of SpanBERT's paper."""

    coref: Literal["published", "small"] = "published"
    """The settings that all others are laid over: the paper's, or small layers for a CPU."""
    layers: CorefLayers = field(default_factory=CorefLayers)
    units: Literal["auto", "word", "piece", "character"] = "auto"
    """What mentions begin and end with; auto: words if those of the training data do, else characters."""
    segments: Literal["independent", "overlap"] = "independent"
    """Whether each token is seen by one segment, or by two whose states are mixed."""
    singletons: bool | None = None
    """Whether clusters of one mention are given; None: told from the training data."""
    speakers: bool | None = None
    """Whether scores know who speaks; None: if the training data says."""
    genres: bool | None = None
    """Whether scores know the genre; None: if the training data says."""
    mention_loss: float = 1.0
    """The weight of the mention scores' own loss, where singletons make it possible."""
    data: TaskDataConfig = field(default_factory=lambda: TaskDataConfig(length=384))
    training: TrainingConfig = field(
        default_factory=lambda: TrainingConfig(lr=1e-5, lr_factors={"heads": 20.0}, batch_size=1, epochs=20.0)
    )

    def __post_init__(self) -> None:
        if self.mention_loss < 0:
            raise ConfigError(f"'mention_loss' is {self.mention_loss}; it must not be negative")

    @classmethod
    def base(cls, changes: Mapping[str, Any]) -> "CorefConfig":
        """The preset that `changes` name."""
        return SMALL if changes.get("coref") == "small" else cls()


SMALL = CorefConfig(
    coref="small",
    layers=CorefLayers(
        inner_width=256,
        span=SpanConfig(max_width=15),
        antecedents=20,
        rounds=1,
        mention_ratio=0.25,
        dropout=0.2,
        spelling=True,
        max_segments=5,
    ),
    data=TaskDataConfig(length=256),
    training=TrainingConfig(lr=7e-5, lr_factors={"heads": 8.0}, batch_size=1, epochs=15.0),
)


# ---- read


class Coreference(Task[CorefExample, CorefResult]):
    """The task `coref`."""

    name: ClassVar[str] = "coref"
    Config: ClassVar[type[TaskConfig]] = CorefConfig
    shape: ClassVar[FileShape] = FileShape(fields={"text": ("Text",)}, required=("text",), labels="clusters")

    config: CorefConfig

    @property
    @override
    def primary(self) -> str:
        """The mean of MUC, B³ and CEAFe."""
        return "conll_f1"

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        return document_problems(row, labelled=labelled)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> CorefExample:
        return read_document(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: CorefConfig, examples: Sequence[CorefExample]) -> Self:
        """What mentions are made of, and which of singletons, speakers and genres there are."""
        if not any(example.clusters for example in examples):
            raise InputError("the training data has no cluster", fix="give documents with 'clusters'")
        spans = [[span for cluster in example.clusters for span in cluster] for example in examples]
        if config.units == "auto":
            config = replace(config, units=choose_units([example.text for example in examples], spans))
        if config.singletons is None:
            lone = any(len(cluster) == 1 for example in examples for cluster in example.clusters)
            config = replace(config, singletons=lone)
        if config.speakers is None:
            config = replace(config, speakers=any(example.speakers for example in examples))
        genres = sorted({example.genre for example in examples if example.genre is not None})
        if config.genres is None:
            config = replace(config, genres=len(genres) > 1)
        return cls(config, FittedState(entity_labels=tuple(genres) if config.genres else ()))

    # ---- encode

    @override
    def encode(self, examples: Sequence[CorefExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        assert self.config.units != "auto", "training decides what mentions are made of"
        all_units = encode_units(windower.tokenizer, [example.text for example in examples], self.config.units)
        most = self.config.layers.max_segments if labelled else 0
        return [
            self._arrays(number, example, units, windower, labelled=labelled).for_training(most)
            for number, (example, units) in enumerate(zip(examples, all_units, strict=True))
        ]

    def _arrays(
        self, number: int, example: CorefExample, units: LabelUnits, windower: Windower, *, labelled: bool
    ) -> DocumentArrays:
        if not len(units):
            raise example.row.error("a document without a word", "leave it out")
        sentences = sentences_of(example)
        framed, truncated = self._segments(units, sentences, windower)
        if example.mentions is not None:
            candidates = only_sure(units, example.mentions)
        else:
            sure = () if example.question is None else example.question.spans
            candidates = list_candidates(units, sentences, self.config.layers.span.max_width, sure)
        if truncated:
            candidates = candidates.select(candidates.last < framed[-1].first.end)
        genres = self.fitted.entity_labels
        return DocumentArrays(
            example=number,
            framed=framed,
            candidates=candidates,
            speakers=_speakers(example, units),
            genre=genres.index(example.genre) + 1 if example.genre in genres else 0,
            clusters=self._gold(example, units, candidates) if labelled else None,
            truncated=truncated,
        )

    def _segments(
        self, units: LabelUnits, sentences: Sequence[tuple[int, int]], windower: Windower
    ) -> tuple[list[InputWindow], bool]:
        """The segments of a document, and whether text was cut off."""
        tokens, room = units.tokens, windower.length - windower.reserved()
        if self.config.segments == "overlap":
            windows = cut_overlapping(len(tokens), room)
        else:
            begins = np.searchsorted(tokens.starts, [start for start, _ in sentences[1:]])
            windows = cut_segments(len(tokens), room, begins, np.flatnonzero(tokens.word_starts)[1:])
        if len(windows) > 1 and windower.long_text == "error":
            cause = f"a document has {len(tokens)} tokens, and there is room for {room}"
            raise InputError(cause, fix="take data.long_text=windows, or shorten it")
        truncated = len(windows) > 1 and windower.long_text == "truncate"
        return windower.in_windows(tokens, windows[:1] if truncated else windows), truncated

    def _gold(self, example: CorefExample, units: LabelUnits, candidates: Candidates) -> Integers:
        """(C,) the cluster of each candidate; wider mentions than candidates are in none."""
        mentions = [span for cluster in example.clusters for span in cluster]
        self._check_units(example, units, mentions)
        numbers = np.repeat(np.arange(len(example.clusters)) + 1, [len(cluster) for cluster in example.clusters])
        found = candidates.find(mentions)
        clusters = np.zeros(len(candidates), dtype=np.int64)
        clusters[found[found >= 0]] = numbers[found >= 0]
        return clusters

    def _check_units(self, example: CorefExample, units: LabelUnits, mentions: Sequence[tuple[int, int]]) -> None:
        """Refuse a mention that no candidate can ever be, unless the config says to drop such."""
        if self.config.data.bad_rows == "drop":
            return
        starts, ends = (np.array([span[edge] for span in mentions], dtype=np.int64) for edge in (0, 1))
        first, _ = units.find(starts, ends)
        for place in np.flatnonzero(first < 0).tolist():
            found = example.text[starts[place] : ends[place]]
            cause = f"the mention {found!r} ({starts[place]} to {ends[place]}) begins or ends inside a unit"
            raise example.row.error(cause, "correct it, take units=character, or data.bad_rows=drop")

    # ---- Head

    @override
    def head(self, encoder: Encoder) -> CorefHead:
        config = self.config
        return CorefHead(
            encoder.config,
            config.layers,
            speakers=bool(config.speakers),
            genres=len(self.fitted.entity_labels) + 1 if config.genres else 0,
            overlap=config.segments == "overlap",
            mention_loss=config.mention_loss if config.singletons else 0.0,
        )

    # ---- decode

    @override
    def decode(
        self, index: int, example: CorefExample, samples: Sequence[Sample], outputs: Sequence[Links]
    ) -> CorefResult:
        """Clusters of all mentions that link, and of lone ones where the model knows them."""
        (sample,), (links,) = samples, outputs
        found = join_links(example.text, sample.features, links, singletons=bool(self.config.singletons))
        return CorefResult(
            id=str(index) if example.id is None else example.id,
            windows=len(sample.sequences),
            truncated=sample.truncated,
            clusters=found.clusters,
            cluster_scores=found.scores,
            mentions=found.mentions,
            source=example.text,
            sentences=sentences_of(example),
            words=example.words,
        )

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: CorefExample) -> CorefResult:
        for problem in cluster_problems(example.text, row.values):
            if problem.serious:
                raise problem.error(row)
        predicted = read_document(Row(values={**row.values, "text": example.text}), labelled=True)
        return CorefResult(
            id=str(index) if example.id is None else example.id,
            clusters=predicted.clusters,
            cluster_scores=(1.0,) * len(predicted.clusters),
            mentions=(),
            source=example.text,
        )

    @override
    def score(self, examples: Sequence[CorefExample], results: Sequence[CorefResult]) -> Scores:
        """MUC, B³, CEAFe, LEA, mentions and the mean of the first three; on GAP's questions, how many are right."""
        questions = [example.question for example in examples if example.question is not None]
        if questions and len(questions) == len(examples):
            return Scores(task=self.name, count=len(examples), metrics=score_questions(examples, results))
        gold, predicted = [example.clusters for example in examples], [result.clusters for result in results]
        metrics = score_clusters(gold, predicted)
        if self.config.singletons:
            without = score_clusters(gold, predicted, singletons=False)
            metrics["conll_f1_without_singletons"] = without["conll_f1"]
        return Scores(task=self.name, count=len(examples), metrics=metrics)

    @override
    def mistake(self, example: CorefExample, result: CorefResult) -> Mistake | None:
        """A document whose clusters are not right, by how far they are from it."""
        scores = score_clusters([example.clusters], [result.clusters])
        if scores["conll_f1"] >= 100.0:
            return None
        gold, predicted = (_listed(example.text, clusters) for clusters in (example.clusters, result.clusters))
        return Mistake(badness=100.0 - scores["conll_f1"], shown=result.to_html(), gold=gold, predicted=predicted)


def score_questions(examples: Sequence[CorefExample], results: Sequence[CorefResult]) -> dict[str, float]:
    """GAP's figures."""
    gold, predicted, genders = [], [], []
    for example, result in zip(examples, results, strict=True):
        assert example.question is not None
        gold.append(example.question.meant or (False, False))
        predicted.append(example.question.answer(result.clusters))
        start, end = example.question.pronoun
        genders.append(gender(example.text[start:end]) or "")
    return score_gap(gold, predicted, genders)


def _speakers(example: CorefExample, units: LabelUnits) -> Integers:
    """(N,) who says each token, by number."""
    speakers = np.zeros(len(units.tokens), dtype=np.int64)
    numbers = {name: number for number, name in enumerate(dict.fromkeys(turn[2] for turn in example.speakers), 1)}
    for start, end, name in example.speakers:
        speakers[np.searchsorted(units.tokens.starts, start) : np.searchsorted(units.tokens.starts, end)] = numbers[
            name
        ]
    return speakers


def _listed(text: str, clusters: Sequence[Sequence[tuple[int, int]]]) -> str:
    """The clusters in words, the longest first."""
    spelt = [
        ", ".join(text[start:end] for start, end in cluster) for cluster in sorted(clusters, key=len, reverse=True)
    ]
    return " · ".join(spelt[:12])
