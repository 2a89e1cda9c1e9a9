"""Which tokens of an input made an answer: integrated gradients (Sundararajan et al. 2017).

A predictor and one input enter; the share of every token in the score of one answer leaves, in characters of the user's
text. The path goes from a baseline, in which every token of the texts is the mask token (or, without one, the zero
vector), to the embedded tokens. Special tokens stay as they are, as do positions and segments. The shares sum up to the
score minus that of the baseline; by how much they miss it is in the result (`error`), and gets smaller with more steps.

The integral is a Gauss-Legendre sum, as captum computes it by default: one forward and one backward pass of the
answer's windows per step. The model is run in full precision, since differences of close gradients do not survive bf16.

Shapes: N tokens, E width of the word table.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from spanlab.encoder.layers import evaluating
from spanlab.errors import InputError
from spanlab.inference.explained_scores import Explained, Part, Predicted, explain
from spanlab.inference.predictor import Input, Predictor, readable_row, to_row
from spanlab.inference.torch_predictor import in_torch
from spanlab.tasks.examples import encode_inputs
from spanlab.tasks.head import Encoded
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.outputs import group_by_example
from spanlab.tasks.predict import compute_outputs
from spanlab.tasks.result import plain_values
from spanlab.tasks.sample import Sample, SampleBatch, TokenSequence
from spanlab.tasks.tensor_batch import TensorBatch, pack_samples
from spanlab.tasks.windows import Template, Windower
from spanlab.text.tokens import Tokens
from spanlab.text.windows import Window

FEWEST, MOST = 32, 256
"""Points of the path that are tried, each time twice as many, until the shares miss the difference by 1 % or less."""


@dataclass(frozen=True, kw_only=True)
class TokenShare:
    """Characters of a text, and their share in the score."""

    start: int
    end: int
    value: float


@dataclass(frozen=True, kw_only=True)
class AttributedText:
    """One text of the input, such as the question, with the shares of its tokens in the order of the text."""

    field: str
    """Its name in the labelled file."""
    document: int
    """Its index where the input has several documents, else 0."""
    text: str
    tokens: tuple[TokenShare, ...]


@dataclass(frozen=True, kw_only=True)
class Attribution:
    """The shares of all tokens in the score of one answer."""

    task: str
    answer: str
    """In words; "" is no answer."""
    score: float
    baseline: float
    """The score where every token of the texts is masked."""
    error: float
    """By how much the shares, with that of the special tokens, miss `score - baseline`."""
    steps: int
    texts: tuple[AttributedText, ...]

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        plain: dict[str, Any] = plain_values(self)
        return plain


def attribute(
    predictor: Predictor,
    item: Input,
    *,
    task: str | None = None,
    answer: int | str | None = None,
    steps: int | None = None,
) -> Attribution:
    """Attribute one answer for one input to its tokens.

    Args:
        predictor: the model.
        item: a text, a tuple of texts or a mapping, as `predict` takes it.
        task: which of the model's tasks; None if it has one.
        answer: its index among the answers, entities, relations, mentions or sentences of the result, or a label; None:
            the first, or the predicted label.
        steps: points of the path; None: as many as the score's curve needs, up to `MOST`.
    """
    if steps is not None and not 1 <= steps <= 1000:
        raise InputError(f"steps is {steps}; it must be 1 to 1000")
    name = predictor.model.name_of(task)
    path = _Path(predictor, name)
    predicted = path.predict(item)
    explained = explain(predicted, answer)
    if steps is not None:
        return path.attribute(predicted, explained, steps)
    steps = FEWEST
    while True:
        found = path.attribute(predicted, explained, steps)
        if steps >= MOST or abs(found.error) <= 0.01 * abs(found.score - found.baseline) + 1e-3:
            return found
        steps *= 2


def integrated_gradients(score: Callable[[Tensor], Tensor], x_NE: Tensor, baseline_NE: Tensor, steps: int) -> Tensor:
    """(N, E) the integral of the gradient of `score` along the line from the baseline to x, times their difference."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    total_NE = torch.zeros_like(x_NE)
    for share, weight in zip((1 + nodes) / 2, weights / 2, strict=True):
        point_NE = (baseline_NE + float(share) * (x_NE - baseline_NE)).requires_grad_()
        (gradient_NE,) = torch.autograd.grad(score(point_NE), point_NE)
        total_NE += float(weight) * gradient_NE
    return total_NE * (x_NE - baseline_NE)


@dataclass(frozen=True, kw_only=True)
class _Piece:
    """The tokens of a text that a sequence has from a position on."""

    position: int
    second: bool
    """Of the second of two texts."""
    starts: np.ndarray
    ends: np.ndarray


class _TracingWindower(Windower):
    """Remembers which tokens of which text each sequence was made of."""

    pieces: dict[int, tuple[_Piece, ...]]
    """By the identity of the array of ids, which the samples keep alive."""

    @classmethod
    def of(cls, windower: Windower) -> "_TracingWindower":
        traced = cls.__new__(cls)
        traced.__dict__ = {**windower.__dict__, "pieces": {}}
        return traced

    @override
    def join(self, template: Template, texts: dict[str, tuple[Tokens, Window]]) -> tuple[TokenSequence, dict[str, int]]:
        sequence, starts = super().join(template, texts)
        self.pieces[id(sequence.ids)] = tuple(
            _Piece(
                position=starts[name],
                second=name == "$B",
                starts=tokens.starts[window.start : window.end],
                ends=tokens.ends[window.start : window.end],
            )
            for name, (tokens, window) in texts.items()
        )
        return sequence, starts


class _Path:
    """One task of a model in full precision, with everything that is needed to follow a score to its tokens."""

    def __init__(self, predictor: Predictor, task: str) -> None:
        layers = in_torch(predictor)
        model = layers.model
        self._name, self._model = task, model
        self._process = layers.process
        heads, own = {task: model.heads[task]}, {k: v for k, v in model.adapters.items() if k == task}
        network = MultiTaskNetwork(model.encoder, heads, adapters=own)
        adapted = bool(own) and own[task].changes_hidden_states
        # A copy where computing writes to the modules, or where the weights are not in full precision.
        whole = all(weight.dtype == torch.float32 for weight in network.parameters())
        self._network = network if whole and not adapted else copy.deepcopy(network).float()
        self._windower = _TracingWindower.of(model.windower(task))

    def predict(self, item: Input) -> Predicted:
        """One input as prediction computes it."""
        task = self._model.tasks[self._name]
        row = readable_row(to_row(0, item, type(task)))
        example = task.read(row, labelled=False)
        samples = encode_inputs(task, [example], [row], self._windower)
        process = self._process
        outputs = compute_outputs(self._network, {self._name: samples}, batch_tokens=16384, process=process)
        grouped = group_by_example([example], samples, outputs[self._name])
        (result,) = grouped.decode(task)
        return Predicted(
            task=task,
            head=self._network.head(self._name),
            windower=self._windower,
            example=example,
            samples=[] if task.is_empty(example) else samples,
            outputs=outputs[self._name],
            result=result,
        )

    def attribute(self, predicted: Predicted, explained: Explained, steps: int) -> Attribution:
        """The shares of all terms of the score, added up."""
        shares: dict[tuple[str, int], dict[tuple[int, int], float]] = {}
        total = {"score": 0.0, "baseline": 0.0, "shares": 0.0}
        with evaluating(self._network), torch.enable_grad():
            for part in explained.parts:
                share_N, score, baseline = self._follow(part, steps)
                total["score"] += part.weight * score
                total["baseline"] += part.weight * baseline
                total["shares"] += part.weight * float(share_N.sum())
                self._add(shares, predicted, part, (part.weight * share_N).tolist())
        texts = [
            AttributedText(
                field=name,
                document=document,
                text=_text_of(predicted, name, document),
                tokens=tuple(TokenShare(start=s, end=e, value=value) for (s, e), value in sorted(values.items())),
            )
            for (name, document), values in sorted(shares.items(), key=lambda item: _field_order(predicted, item[0]))
        ]
        return Attribution(
            task=self._name,
            answer=explained.answer,
            score=total["score"],
            baseline=total["baseline"],
            error=total["shares"] - (total["score"] - total["baseline"]),
            steps=steps,
            texts=tuple(texts),
        )

    def _follow(self, part: Part, steps: int) -> tuple[Tensor, float, float]:
        """(N,) the shares of a sample's tokens; the score, and that of the baseline."""
        batch = pack_samples(SampleBatch(task=self._name, samples=(part.sample,)), self._process.device)
        encoder = self._network.encoder
        with torch.no_grad():
            table_VE = encoder.word_table
            x_NE = F.embedding(batch.input_ids_N, table_VE).float()
            mask_id = self._model.tokenizer.mask_id
            empty_E = torch.zeros_like(x_NE[0]) if mask_id is None else table_VE[mask_id].float()
            is_text_N = torch.from_numpy(self._is_text(part.sample)).to(x_NE.device)
            baseline_NE = torch.where(is_text_N[:, None], empty_E, x_NE)

        def score(embeds_NE: Tensor) -> Tensor:
            return part.score(self._network.head(self._name)(self._encode(batch, embeds_NE)))

        share_N = integrated_gradients(score, x_NE, baseline_NE, steps).sum(dim=-1).detach().cpu()
        with torch.no_grad():
            return share_N, float(score(x_NE)), float(score(baseline_NE))

    def _encode(self, batch: TensorBatch, embeds_NE: Tensor) -> Encoded:
        encoder, adapters = self._network.encoder, self._network.adapters(self._name)
        if adapters is not None:
            ids_N, segments_N = batch.input_ids_N, batch.segment_ids_N
            output = adapters.encode(encoder, ids_N, segments_N, batch.lengths_B, embeds_NE=embeds_NE)
        else:
            output = encoder(inputs_embeds=embeds_NE, token_type_ids=batch.segment_ids_N, lengths=batch.lengths_B)
        table_VE = encoder.word_table if encoder.config.causal else None
        return Encoded(hidden_ND=output.hidden, pooled_BD=output.pooled, batch=batch, word_table_VE=table_VE)

    def _is_text(self, sample: Sample) -> np.ndarray:
        """(N,) the tokens of a text; special tokens and markers are none."""
        is_text = np.zeros(sample.tokens, bool)
        begin = 0
        for sequence in sample.sequences:
            for piece in self._windower.pieces[id(sequence.ids)]:
                first = begin + piece.position
                is_text[first : first + len(piece.starts)] = piece.ends > piece.starts
            begin += len(sequence)
        return is_text

    def _add(
        self,
        shares: dict[tuple[str, int], dict[tuple[int, int], float]],
        predicted: Predicted,
        part: Part,
        share_N: list[float],
    ) -> None:
        """Add the shares of a sample's tokens to those of their characters."""
        begin = 0
        for index, sequence in enumerate(part.sample.sequences):
            for piece in self._windower.pieces[id(sequence.ids)]:
                values = shares.setdefault(_field_of(predicted, part.sample, index, piece), {})
                for offset, span in enumerate(zip(piece.starts.tolist(), piece.ends.tolist(), strict=True)):
                    if span[1] > span[0]:
                        values[span] = values.get(span, 0.0) + share_N[begin + piece.position + offset]
            begin += len(sequence)


def _field_of(predicted: Predicted, sample: Sample, sequence: int, piece: _Piece) -> tuple[str, int]:
    """The name and the document of the text that a piece is of."""
    required = predicted.task.shape.required
    if "side" in sample.features:  # a bi-encoder has each text in sequences of its own
        return required[int(sample.features["side"][sequence])], 0
    if len(required) == 1:
        return required[0], 0
    document = int(sample.features["document"][0]) if piece.second and "document" in sample.features else 0
    return required[int(piece.second)], document


def _field_order(predicted: Predicted, field: tuple[str, int]) -> tuple[int, int]:
    return predicted.task.shape.required.index(field[0]), field[1]


def _text_of(predicted: Predicted, name: str, document: int) -> str:
    """A text of the example, as the user gave it."""
    if name == "context":
        context: str = predicted.example.contexts[document]
        return context
    text: str = getattr(predicted.example, name)
    return text
