"""Extractive question answering: the span of a context that answers a question, or none.

The question comes first, whole, and windows over the context follow. `head=pointers` scores where an answer begins and
where it ends, as BERT does; `head=span` scores every candidate span by its vector. Answers of all windows, and of all
documents of a question, compete; "no answer" must be better than the best of them by more than a threshold, which is
tuned on dev, kept with the model, and the same in evaluation, prediction and serving.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from typing import ClassVar, Literal, Self

import numpy as np
from typing_extensions import override

from spanlab.encoder import Encoder
from spanlab.errors import ConfigError
from spanlab.metrics.squad import answer_scores, best_no_answer_threshold, score_answers
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.config import TaskConfig, TaskDataConfig
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.qa.data import Answer, QaExample, QaResult, answer_problems, question_problems, read_question
from spanlab.tasks.qa.decode import RankedAnswers, WindowAnswers, merge_windows, probabilities, tokens_over
from spanlab.tasks.qa.heads import CandidateHead, PointerHead
from spanlab.tasks.result import Mistake, Scores, about
from spanlab.tasks.sample import Arrays, Sample
from spanlab.tasks.script_language import script_language
from spanlab.tasks.spans.representation import SpanConfig
from spanlab.tasks.validation import Problem, clip_repr
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.tokens import Tokens
from spanlab.training.config import TrainingConfig

THRESHOLD = "no_answer"
"""The name of the threshold; a model whose training data always had an answer has none, and always answers."""

# ---- Config


@dataclass(frozen=True, kw_only=True)
class QaConfig(TaskConfig):
    """Question answering; the defaults are those of SQuAD in SpanBERT's paper."""

    head: Literal["pointers", "span"] = "pointers"
    """Where an answer begins and ends, or a score for every candidate span."""
    max_question: int = 64
    """Tokens of a question; what is beyond is cut off, and the result says so."""
    max_answer: int = 30
    """Tokens of an answer."""
    n_best: int = 20
    """Answers kept of each window, and listed."""
    language: Literal["auto", "en", "zh", "ko"] = "auto"
    """Whose rules compare answers: SQuAD's, CMRC 2018's or KorQuAD's; auto goes by the script of the questions."""
    span: SpanConfig = field(default_factory=lambda: SpanConfig(inside="none"))
    """What the vectors of candidate spans are made of."""
    inner_width: int = 150
    """Of the layer between a span's vector and its score."""
    data: TaskDataConfig = field(default_factory=lambda: TaskDataConfig(length=512, stride=128))
    training: TrainingConfig = field(default_factory=lambda: TrainingConfig(lr=2e-5, batch_size=32, epochs=4.0))

    def __post_init__(self) -> None:
        for name in ("max_question", "max_answer", "n_best", "inner_width"):
            if getattr(self, name) < 1:
                raise ConfigError(f"'{name}' is {getattr(self, name)}; it must be at least 1")


# ---- read


class QuestionAnswering(Task[QaExample, QaResult]):
    """The task `qa`."""

    name: ClassVar[str] = "qa"
    Config: ClassVar[type[TaskConfig]] = QaConfig
    shape: ClassVar[FileShape] = FileShape(
        fields={"question": (), "context": ("passage",)}, required=("question", "context"), labels="answers"
    )

    config: QaConfig

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        problems = list(question_problems(row))
        yield from problems
        if labelled and not any(problem.serious for problem in problems):
            yield from answer_problems(row)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> QaExample:
        return read_question(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: QaConfig, examples: Sequence[QaExample]) -> Self:
        """Whether there are questions without an answer; how sure of that one must be is tuned on dev."""
        silent = any(not example.answers for example in examples)
        return cls(config, FittedState(thresholds={THRESHOLD: 0.0} if silent else {}))

    # ---- encode

    @override
    def encode(self, examples: Sequence[QaExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """A sample a window of a document; the target is the first right answer, or the null place."""
        texts = list(dict.fromkeys(text for one in examples for text in (one.question, *one.contexts)))
        tokens = dict(zip(texts, windower.tokenize(texts), strict=True))
        return [
            sample
            for number, example in enumerate(examples)
            for sample in self._encode_one(number, example, tokens, windower, labelled=labelled)
        ]

    def _encode_one(
        self, number: int, example: QaExample, tokens: Mapping[str, Tokens], windower: Windower, *, labelled: bool
    ) -> Iterator[Sample]:
        question, most = tokens[example.question], self.config.max_question
        shortened = Tokens(
            question.ids[:most], question.starts[:most], question.ends[:most], question.word_starts[:most]
        )
        for document, text in enumerate(example.contexts):
            context = tokens[text]
            answer = _answer_tokens(example, document, context) if labelled else None
            for window in windower.question(shortened, context):
                null = _null_place(window, windower)
                first, last = _place_in(window, answer) or (null, null)
                yield Sample(
                    example=number,
                    sequences=(window.sequence,),
                    features=_features(window, context, document, null),
                    targets={"first": np.array([first]), "last": np.array([last])} if labelled else {},
                    truncated=window.truncated or len(question) > most,
                )

    # ---- Head

    @override
    def head(self, encoder: Encoder) -> PointerHead | CandidateHead:
        config = self.config
        if config.head == "pointers":
            return PointerHead(encoder.config, max_answer=config.max_answer, n_best=config.n_best)
        return CandidateHead(
            encoder.config,
            config.span,
            inner_width=config.inner_width,
            max_answer=config.max_answer,
            n_best=config.n_best,
        )

    # ---- decode

    @override
    def decode(
        self, index: int, example: QaExample, samples: Sequence[Sample], outputs: Sequence[WindowAnswers]
    ) -> QaResult:
        """The best answer of all windows, unless none is better by more than the threshold."""
        ranked = self._rank(samples, outputs)
        threshold = self.fitted.thresholds.get(THRESHOLD)
        best = float(ranked.scores[0]) if len(ranked.scores) else -np.inf
        silent = best == -np.inf or (threshold is not None and ranked.null - best > threshold)
        nbest, null_score = _with_probabilities(example, ranked, may_be_silent=threshold is not None)
        nothing = Answer(answer="", start=None, end=None, document=None, score=null_score)
        chosen = nothing if silent else nbest[0]
        listed = sorted([*nbest, nothing] if threshold is not None else nbest, key=lambda one: -one.score)
        return QaResult(
            **about(index, example.id, samples),
            answer=chosen.answer,
            start=chosen.start,
            end=chosen.end,
            document=chosen.document,
            score=chosen.score,
            no_answer=silent,
            nbest=tuple(listed[: self.config.n_best]),
            contexts=example.contexts,
        )

    def _rank(self, samples: Sequence[Sample], outputs: Sequence[WindowAnswers]) -> RankedAnswers:
        """The best answers of all windows, by characters."""
        placed = []
        for sample, output in zip(samples, outputs, strict=True):
            begin = int(sample.features["begin"][0])
            starts, ends = (np.asarray(sample.features[name], dtype=np.int64) for name in ("starts", "ends"))
            first, last = starts[output.first - begin], ends[output.last - begin] - 1
            placed.append(WindowAnswers(scores=output.scores, first=first, last=last, null=output.null))
        documents = [int(sample.features["document"][0]) for sample in samples]
        return merge_windows(placed, documents, self.config.n_best)

    @override
    def tune(
        self,
        examples: Sequence[QaExample],
        samples: Sequence[Sequence[Sample]],
        outputs: Sequence[Sequence[WindowAnswers]],
    ) -> "QuestionAnswering":
        """The threshold of no answer with the best F1, if dev has questions without an answer."""
        if THRESHOLD not in self.fitted.thresholds or all(example.answers for example in examples):
            return self
        ranked = [self._rank(*each) for each in zip(samples, outputs, strict=True)]
        answered = [(example, one) for example, one in zip(examples, ranked, strict=True) if len(one.scores)]
        texts = [_text_of(example, one, 0) for example, one in answered]
        gold = [[answer.text for answer in example.answers] for example, _ in answered]
        differences = [one.null - float(one.scores[0]) for _, one in answered]
        language = self._language([example for example, _ in answered])
        tuned = best_no_answer_threshold(gold, texts, differences, language=language)
        fitted = replace(self.fitted, thresholds={THRESHOLD: tuned.threshold})
        return QuestionAnswering(self.config, fitted)

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: QaExample) -> QaResult:
        answer = row.values.get("answer")
        if not isinstance(answer, str):
            raise row.error(
                f"'answer' is {clip_repr(answer)}; it must be text", 'give the text of the answer, "" for none'
            )
        return QaResult(
            id=str(index) if example.id is None else example.id,
            answer=answer,
            start=None,
            end=None,
            score=1.0,
            no_answer=not answer,
            contexts=example.contexts,
        )

    @override
    def score(self, examples: Sequence[QaExample], results: Sequence[QaResult]) -> Scores:
        """Exact match and F1 by the rules of the questions' language."""
        gold = [[answer.text for answer in example.answers] for example in examples]
        metrics = score_answers(gold, [result.answer for result in results], language=self._language(examples))
        return Scores(task=self.name, count=len(examples), metrics=metrics)

    @override
    def mistake(self, example: QaExample, result: QaResult) -> Mistake | None:
        """An answer that shares not all of its words with a right one."""
        gold = [answer.text for answer in example.answers]
        f1 = answer_scores(gold, result.answer, language=self._language([example])).f1
        if f1 == 100.0:
            return None
        shown = f"<p><b>{escape(example.question)}</b></p>{result.to_html()}"
        wanted = " | ".join(dict.fromkeys(gold))
        return Mistake(badness=result.score * (1 - f1 / 100), shown=shown, gold=wanted, predicted=result.answer)

    def _language(self, examples: Sequence[QaExample]) -> str:
        chosen = self.config.language
        return script_language(example.question for example in examples) if chosen == "auto" else chosen


def _features(window: InputWindow, context: Tokens, document: int, null: int) -> Arrays:
    """Where the context and the null place are in a sequence, and the characters of the context's tokens."""
    assert window.second is not None, "a question comes with a context"
    here = slice(window.second.start, window.second.end)
    return {
        "begin": np.array([window.second_start]),
        "stop": np.array([window.second_start + len(window.second)]),
        "null": np.array([null]),
        "document": np.array([document]),
        "starts": context.starts[here].astype(np.int64),
        "ends": context.ends[here].astype(np.int64),
    }


def _null_place(window: InputWindow, windower: Windower) -> int:
    """The place of the summarising token; the first where a tokenizer has none."""
    cls_id = windower.tokenizer.cls_id
    places = [] if cls_id is None else np.flatnonzero(window.sequence.ids == cls_id).tolist()
    return places[0] if places else 0


def _answer_tokens(example: QaExample, document: int, context: Tokens) -> tuple[int, int] | None:
    """First and last token of the first right answer, if it is in this document."""
    answer = next(iter(example.answers), None)
    if answer is None or answer.document != document:
        return None
    return tokens_over(context.starts.astype(np.int64), context.ends.astype(np.int64), answer.start, answer.end)


def _place_in(window: InputWindow, answer: tuple[int, int] | None) -> tuple[int, int] | None:
    """The answer's tokens as places in a window's sequence; None if it is not whole in there."""
    here = window.second
    if answer is None or here is None or answer[0] < here.start or answer[1] >= here.end:
        return None
    shift = window.second_start - here.start
    return answer[0] + shift, answer[1] + shift


def _text_of(example: QaExample, ranked: RankedAnswers, place: int) -> str:
    context = example.contexts[int(ranked.documents[place])]
    return context[int(ranked.first[place]) : int(ranked.last[place]) + 1]


def _with_probabilities(
    example: QaExample, ranked: RankedAnswers, *, may_be_silent: bool
) -> tuple[list[Answer], float]:
    """The best answers, and the probability of none: all together sum to one."""
    shares = probabilities(np.append(ranked.scores, ranked.null) if may_be_silent else ranked.scores)
    answers = [
        Answer(
            answer=_text_of(example, ranked, place),
            start=int(ranked.first[place]),
            end=int(ranked.last[place]) + 1,
            document=int(ranked.documents[place]),
            score=round(float(shares[place]), 6),
        )
        for place in range(len(ranked.scores))
    ]
    return answers, round(float(shares[-1]), 6) if may_be_silent else float(not answers)
