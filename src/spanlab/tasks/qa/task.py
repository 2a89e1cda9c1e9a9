"""Extractive question answering: the span of a context that answers a question, or none.

A sequence is the question followed by a window of the context. Answers of all windows, and of all documents of a
question, compete; "no answer" wins if its score exceeds that of the best answer by more than a threshold, which is
tuned on dev, kept with the model, and the same in evaluation, prediction and serving. The target of a window without
the answer is its null position, the [CLS] token.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

import numpy as np
from typing_extensions import override

from spanlab.metrics.score_counts import ScoreCounts
from spanlab.metrics.squad import answer_scores, best_no_answer_threshold, score_answers
from spanlab.tasks.base import FittedState, Task
from spanlab.tasks.formats.row import FileShape, Row
from spanlab.tasks.host_head import HostHead, one_graph
from spanlab.tasks.qa.band import best_pointers, score_spans
from spanlab.tasks.qa.config import QaConfig
from spanlab.tasks.qa.data import QaExample, QaResult, example_problems, parse_example, read_prediction
from spanlab.tasks.qa.decode import WindowAnswers, rank_answers, scored_answers
from spanlab.tasks.result import Mistake, Scores, common_fields, empty_fields, result_id
from spanlab.tasks.sample import Sample
from spanlab.tasks.spans.units import tokens_in_spans, tokens_over
from spanlab.tasks.validation import Problem
from spanlab.tasks.windows import InputWindow, Windower
from spanlab.text.tokens import Tokens
from spanlab.text.whole_words import are_mostly_whole, inside_words
from spanlab.text.words import script_language

if TYPE_CHECKING:
    from spanlab.encoder import Encoder
    from spanlab.tasks.head import Head

THRESHOLD = "no_answer"
"""The name of the threshold; a model whose training data always had an answer has none, and always answers."""


class QuestionAnswering(Task[QaExample, QaResult]):
    """The task `qa`."""

    name = "qa"
    Config = QaConfig
    shape = FileShape(
        fields={"question": (), "context": ("passage",)}, required=("question", "context"), labels="answers"
    )

    config: QaConfig

    # ---- read

    @classmethod
    @override
    def problems(cls, row: Row, *, labelled: bool = True) -> Iterator[Problem]:
        return example_problems(row, labelled=labelled)

    @classmethod
    @override
    def parse(cls, row: Row, *, labelled: bool) -> QaExample:
        return parse_example(row, labelled=labelled)

    @classmethod
    @override
    def fit(cls, config: QaConfig, examples: Sequence[QaExample]) -> Self:
        """A threshold of no answer if there are questions without an answer; its value is tuned on dev."""
        has_unanswerable = any(not example.answers for example in examples)
        if config.whole_words is None:
            gold = [(example.contexts[answer.document], answer) for example in examples for answer in example.answers]
            spans = [[(answer.start, answer.end)] for _, answer in gold]
            config = replace(config, whole_words=are_mostly_whole([context for context, _ in gold], spans))
        return cls(config, FittedState(thresholds={THRESHOLD: 0.0} if has_unanswerable else {}))

    @override
    def is_empty(self, example: QaExample) -> bool:
        return not example.question.strip() or not any(context.strip() for context in example.contexts)

    # ---- encode

    @override
    def encode(self, examples: Sequence[QaExample], windower: Windower, *, labelled: bool) -> list[Sample]:
        """A sample a window of a document; the target is the first gold answer, or the null position."""
        texts = list(dict.fromkeys(text for example in examples for text in (example.question, *example.contexts)))
        tokens = dict(zip(texts, windower.tokenize(texts), strict=True))
        return [
            sample
            for index, example in enumerate(examples)
            for sample in self._encode_example(index, example, tokens, windower, labelled=labelled)
        ]

    def _encode_example(
        self, index: int, example: QaExample, tokens: Mapping[str, Tokens], windower: Windower, *, labelled: bool
    ) -> Iterator[Sample]:
        question, limit = tokens[example.question], self.config.max_question
        shortened = Tokens(
            question.ids[:limit], question.starts[:limit], question.ends[:limit], question.word_starts[:limit]
        )
        for document, text in enumerate(example.contexts):
            context = tokens[text]
            answer = _answer_tokens(example, document, context) if labelled else None
            is_answer_N = tokens_in_spans(
                context, ((gold.start, gold.end) for gold in example.answers if gold.document == document)
            )
            inside = inside_words(text) if self.config.whole_words is not False else np.zeros(len(text) + 1, bool)
            for window in windower.question(shortened, context):
                assert window.second is not None, "a question comes with a context"
                shown = slice(window.second.start, window.second.end)
                null = _null_position(window, windower)
                first, last = _answer_in(window, answer) or (null, null)
                yield Sample(
                    example=index,
                    sequences=(window.sequence,),
                    features={
                        "begin": np.array([window.second_start]),
                        "stop": np.array([window.second_start + len(window.second)]),
                        "null": np.array([null]),
                        "document": np.array([document]),
                        "starts": context.starts[shown].astype(np.int64),
                        "ends": context.ends[shown].astype(np.int64),
                        "may_begin": ~inside[context.starts[shown]],
                        "may_end": ~inside[context.ends[shown]],
                    },
                    targets={"first": np.array([first]), "last": np.array([last])} if labelled else {},
                    fixed=window.flags(second=is_answer_N),
                    truncated=window.truncated or len(question) > limit,
                )

    # ---- head

    @override
    def head(self, encoder: "Encoder") -> "Head":
        """The layers of `config.head`; the `split` of each returns `WindowAnswers`."""
        from spanlab.tasks.qa.pointer_head import PointerHead
        from spanlab.tasks.qa.span_head import AnswerSpanHead

        heads = {"pointers": PointerHead, "span": AnswerSpanHead}
        return heads[self.config.head](encoder.config, self.config)

    @property
    @override
    def host_head(self) -> HostHead:
        longest, count = self.config.max_answer, self.config.n_best
        if self.config.head == "span":
            return score_spans(max_answer=longest, count=count)
        return one_graph(partial(best_pointers, max_answer=longest, count=count))

    # ---- decode

    @override
    def decode(
        self, index: int, example: QaExample, samples: Sequence[Sample], outputs: Sequence[WindowAnswers]
    ) -> QaResult:
        """The best answer of all windows, unless the score of no answer is higher by more than the threshold."""
        ranked = rank_answers(samples, outputs, self.config.n_best)
        threshold = self.fitted.thresholds.get(THRESHOLD)
        best = float(ranked.scores[0]) if len(ranked.scores) else -np.inf
        no_answer = best == -np.inf or (threshold is not None and ranked.null - best > threshold)
        answers, null_answer = scored_answers(example.contexts, ranked, with_null=threshold is not None)
        chosen = null_answer if no_answer else answers[0]
        nbest = sorted([*answers, null_answer] if threshold is not None else answers, key=lambda answer: -answer.score)
        return QaResult(
            **common_fields(index, example.id, samples),
            answer=chosen.answer,
            start=chosen.start,
            end=chosen.end,
            document=chosen.document,
            score=chosen.score,
            no_answer=no_answer,
            nbest=tuple(nbest[: self.config.n_best]),
            contexts=example.contexts,
            question=example.question,
        )

    @override
    def empty_result(self, index: int, example: QaExample) -> QaResult:
        """No answer, for certain."""
        shared = empty_fields(index, example.id)
        return QaResult(**shared, answer="", start=None, end=None, score=1.0, no_answer=True, contexts=example.contexts)

    @override
    def tune(
        self,
        examples: Sequence[QaExample],
        samples: Sequence[Sequence[Sample]],
        outputs: Sequence[Sequence[WindowAnswers]],
    ) -> Self:
        """The threshold of no answer with the best F1, if dev has questions without an answer."""
        if THRESHOLD not in self.fitted.thresholds or all(example.answers for example in examples):
            return self
        ranked = [rank_answers(*windows, self.config.n_best) for windows in zip(samples, outputs, strict=True)]
        answered = [pair for pair in zip(examples, ranked, strict=True) if len(pair[1].scores)]
        tuned = best_no_answer_threshold(
            [[answer.text for answer in example.answers] for example, _ in answered],
            [answers.text(example.contexts, 0) for example, answers in answered],
            [answers.null - float(answers.scores[0]) for _, answers in answered],
            language=self._language([example for example, _ in answered]),
        )
        return type(self)(self.config, replace(self.fitted, thresholds={THRESHOLD: tuned.threshold}))

    # ---- score

    @override
    def read_result(self, row: Row, index: int, example: QaExample) -> QaResult:
        return read_prediction(row, index, example)

    @override
    def missing_result(self, index: int, example: QaExample) -> QaResult:
        """Neither an answer nor "no answer": wrong whatever the gold answers are."""
        name = result_id(index, example.id)
        return QaResult(id=name, answer="", start=None, end=None, score=0.0, no_answer=False, contexts=example.contexts)

    @override
    def score(self, examples: Sequence[QaExample], results: Sequence[QaResult]) -> Scores:
        """Exact match and F1 by the rules of the questions' language."""
        gold, predicted = _answers(examples), _predicted_answers(results)
        metrics = score_answers(gold, predicted, language=self._language(examples))
        return Scores(task=self.name, count=len(examples), metrics=metrics)

    @override
    def score_counts(self, examples: Sequence[QaExample], results: Sequence[QaResult]) -> ScoreCounts:
        """F1 of each question, by the language of all of them."""
        language, pairs = self._language(examples), zip(_answers(examples), _predicted_answers(results), strict=True)
        scores = [0.0 if text is None else answer_scores(gold, text, language=language).f1 for gold, text in pairs]
        return ScoreCounts.of_scores(self.primary, scores)

    @override
    def document(self, example: QaExample) -> str | None:
        """The context, which several questions may be about."""
        return "\n".join(example.contexts)

    @override
    def mistake(self, example: QaExample, result: QaResult) -> Mistake | None:
        """An answer whose F1 is below 100."""
        gold = [answer.text for answer in example.answers]
        f1 = answer_scores(gold, result.answer, language=self._language([example])).f1
        if f1 == 100.0:
            return None
        shown, gold_text = replace(result, question=example.question).to_html(), " | ".join(dict.fromkeys(gold))
        return Mistake(badness=result.score * (1 - f1 / 100), shown=shown, gold=gold_text, predicted=result.answer)

    def _language(self, examples: Sequence[QaExample]) -> str:
        configured = self.config.language
        return script_language(example.question for example in examples) if configured == "auto" else configured


def _answers(examples: Sequence[QaExample]) -> list[list[str]]:
    return [[answer.text for answer in example.answers] for example in examples]


def _predicted_answers(results: Sequence[QaResult]) -> list[str | None]:
    """The answers, "" for none; None is a prediction that is missing."""
    return [result.answer if result.answer or result.no_answer else None for result in results]


def _null_position(window: InputWindow, windower: Windower) -> int:
    """The position of the [CLS] token; the first where a tokenizer has none."""
    cls_id = windower.tokenizer.cls_id
    positions = [] if cls_id is None else np.flatnonzero(window.sequence.ids == cls_id).tolist()
    return positions[0] if positions else 0


def _answer_tokens(example: QaExample, document: int, context: Tokens) -> tuple[int, int] | None:
    """First and last token of the first gold answer, if it is in this document."""
    answer = next(iter(example.answers), None)
    if answer is None or answer.document != document:
        return None
    return tokens_over(context.starts, context.ends, answer.start, answer.end)


def _answer_in(window: InputWindow, answer: tuple[int, int] | None) -> tuple[int, int] | None:
    """The answer's tokens as positions in a window's sequence; None if the window does not hold all of it."""
    context = window.second
    if answer is None or context is None or answer[0] < context.start or answer[1] >= context.end:
        return None
    shift = window.second_start - context.start
    return answer[0] + shift, answer[1] + shift
