"""From ids and log probabilities to what a person reads: candidates of a mask, fillings of a run, the filled text.

Shapes: V vocabulary.
"""

import torch
from torch import Tensor

from spanlab.inference.fill_result import Candidate, Filling
from spanlab.inference.masked_text import MaskedText, MaskRun
from spanlab.inference.readable_pieces import ReadablePiece, put_into, read_piece
from spanlab.inference.span_beam import TokenFilling
from spanlab.text import Tokenizer


def tokens_of_text(tokenizer: Tokenizer, rows: int) -> Tensor:
    """(V,) which of the ids stand for text; a word table may have more rows than there are tokens."""
    allowed_V = torch.zeros(rows, dtype=torch.bool)
    allowed_V[[number for number, token in enumerate(tokenizer.vocabulary) if token]] = True
    allowed_V[list(tokenizer.special_ids)] = False
    return allowed_V


class Spelling:
    """How the findings for one text are written."""

    def __init__(self, tokenizer: Tokenizer, masked: MaskedText) -> None:
        self._tokenizer, self._masked = tokenizer, masked

    def candidates(self, logs_V: Tensor, place: tuple[int, int], top: int) -> tuple[Candidate, ...]:
        """The `top` tokens for a mask; those with a log probability of -inf are no candidates."""
        best = logs_V.topk(min(top, int(logs_V.isfinite().sum())))
        pieces = [self._piece(number, place) for number in best.indices.tolist()]
        return tuple(
            Candidate(
                token=self._tokenizer.vocabulary[number],
                text=piece.text,
                begins_word=piece.begins_word,
                probability=probability,
            )
            for number, piece, probability in zip(
                best.indices.tolist(), pieces, best.values.exp().tolist(), strict=True
            )
        )

    def filling(self, run: MaskRun, found: TokenFilling) -> Filling:
        """A filling of a run."""
        start, end = run.start, run.end
        within = [(first - start, last - start) for first, last in run.places]
        return Filling(
            text=put_into(self._masked.text[start:end], within, self._pieces(run, found)),
            tokens=tuple(self._tokenizer.vocabulary[number] for number in found.ids),
            score=found.score,
        )

    def filled(self, best: list[TokenFilling]) -> str:
        """The whole text with a filling for every run."""
        places = [place for run in self._masked.runs for place in run.places]
        runs = zip(self._masked.runs, best, strict=True)
        return put_into(self._masked.text, places, [piece for run, found in runs for piece in self._pieces(run, found)])

    def _pieces(self, run: MaskRun, found: TokenFilling) -> list[ReadablePiece]:
        return [self._piece(number, place) for number, place in zip(found.ids, run.places, strict=True)]

    def _piece(self, number: int, place: tuple[int, int]) -> ReadablePiece:
        """The piece of an id at a mask; what opens the text begins a word without a mark of it."""
        piece = read_piece(self._tokenizer, number)
        opens = not self._masked.text[: place[0]].strip()
        return ReadablePiece(piece.text, True) if opens else piece
