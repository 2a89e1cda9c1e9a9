"""Attention weights of a model on a text, head by head.

What enters is a model and a text; what leaves are the weights as arrays, or one head as JSON or as an SVG. Rows are
queries, columns are keys; every row sums to one. A head shows where a layer attends, not why the model decides as it
does.

Shapes: L layers, H heads, T tokens.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from spanlab.encoder import Encoder, load_model
from spanlab.encoder.layers import evaluating
from spanlab.errors import InputError
from spanlab.report.svg import FAINT, PALE, picture, width_of, words
from spanlab.text import Tokenizer

Weights = NDArray[np.float32]
_CELL = 24.0


@dataclass(frozen=True, kw_only=True)
class AttentionReport:
    """The attention of a model over one text."""

    title: str
    tokens: tuple[str, ...]
    weights_LHTT: Weights
    spans: tuple[tuple[int, int], ...] = ()
    """The characters of the text that each token stands for; (0, 0) for special tokens."""

    def to_dict(self, layer: int, head: int) -> dict[str, Any]:
        """One head for JSON, with the tokens and the size of the model."""
        weights_TT = self.head(layer, head)
        layers, heads = self.weights_LHTT.shape[:2]
        return {
            "tokens": [
                {"token": token, "start": start, "end": end}
                for token, (start, end) in zip(self.tokens, self.spans, strict=True)
            ],
            "layers": layers,
            "heads": heads,
            "layer": layer,
            "head": head,
            "weights": weights_TT.astype(np.float64).round(4).tolist(),
        }

    def head(self, layer: int, head: int) -> Weights:
        """(T, T) of one head, both counted from 1."""
        layers, heads = self.weights_LHTT.shape[:2]
        if not (1 <= layer <= layers and 1 <= head <= heads):
            raise InputError(f"no head {head} in layer {layer}", fix=f"the model has {layers} layers of {heads} heads")
        weights_TT: Weights = self.weights_LHTT[layer - 1, head - 1]
        return weights_TT


def look_at_attention(folder_or_id: str | Path, text: str) -> AttentionReport:
    """The attention on a text of a model folder, run folder, name in `spanlab models` or Hugging Face id."""
    model = load_model(folder_or_id)
    assert model.folder is not None
    return attention_of(model.encoder, Tokenizer.load(model.folder), text, title=str(folder_or_id))


def attention_of(
    encoder: Encoder, tokenizer: Tokenizer, text: str, *, title: str = "", longest: int | None = None
) -> AttentionReport:
    """The attention of an encoder in memory on a text of at most `longest` tokens, special ones included."""
    tokens = tokenizer.encode(text)
    first, last = ([] if special is None else [special] for special in (tokenizer.cls_id, tokenizer.sep_id))
    ids = [*first, *tokens.ids.tolist(), *last]
    if not ids:
        raise InputError("the text has no token", fix="give a text")
    inner = zip(tokens.starts.tolist(), tokens.ends.tolist(), strict=True)
    spans = (*[(0, 0)] * len(first), *inner, *[(0, 0)] * len(last))
    limit = encoder.config.max_positions if longest is None else min(longest, encoder.config.max_positions)
    if len(ids) > limit:
        raise InputError(f"the text has {len(ids)} tokens; the model takes {limit}", fix="give a shorter text")
    with torch.inference_mode(), evaluating(encoder):
        output = encoder(torch.tensor([ids], device=encoder.word_table.device), output_attentions=True)
    if output.attentions is None:
        raise InputError(f"an encoder of the architecture {encoder.config.architecture} has no attention weights")
    weights = torch.stack([layer[0] for layer in output.attentions]).float().cpu().numpy()
    names = tuple(tokenizer.vocabulary[i] for i in ids)
    return AttentionReport(title=title, tokens=names, weights_LHTT=weights, spans=spans)


def draw_head(report: AttentionReport, layer: int, head: int) -> str:
    """One head as an SVG: a square for each pair of tokens, the darker the larger the weight."""
    weights_TT = report.head(layer, head)
    side = max(width_of(token, size=12) for token in report.tokens) + 16
    size = side + _CELL * len(report.tokens) + 12
    name = f"layer {layer}, head {head}"
    parts = [words(8, 18, name, size=12, colour=FAINT)]
    for row, token in enumerate(report.tokens):
        middle = side + (row + 0.5) * _CELL
        parts.append(words(side - 8, middle + 4, token, size=12, anchor="end"))
        parts.append(words(middle + 4, side - 8, token, size=12, turned=True))
        parts += [_cell(side, row, column, float(weights_TT[row, column])) for column in range(len(report.tokens))]
    return picture(size, size, parts, title=f"Attention, {name}")


def _cell(side: float, row: int, column: int, weight: float) -> str:
    area = f'x="{side + column * _CELL:.0f}" y="{side + row * _CELL:.0f}" width="{_CELL - 1:.0f}"'
    return f'<rect {area} height="{_CELL - 1:.0f}" fill="{_shade(weight)}"><title>{weight:.2f}</title></rect>'


def _shade(weight: float) -> str:
    """From light grey to the blue of a weight of one, in sixteen steps, so that rounding errors hardly change it."""
    share = round(min(1.0, weight**0.7) * 16) / 16
    light, dark = (tuple(int(colour[start : start + 2], 16) for start in (1, 3, 5)) for colour in (PALE, "#173f80"))
    mixed = (round(a + (b - a) * share) for a, b in zip(light, dark, strict=True))
    return "#" + "".join(f"{value:02x}" for value in mixed)
