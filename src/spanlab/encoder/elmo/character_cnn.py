"""A word's vector from its characters: convolutions of several widths, the strongest response of each, highway layers.

Kim et al. 2016, with ELMo's sizes. Rows of character ids, padded at the end, go in; one vector per word
comes out.

Shapes: U words, L characters of a row, A width of a character's vector, F filters, P width of a word's vector.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

SENTENCE_BEGIN, SENTENCE_END, WORD_BEGIN, WORD_END, PADDING = 256, 257, 258, 259, 260
CHARACTERS = 261
"""How many character ids there are: 256 bytes and the five marks."""


def word_characters(words: Sequence[str], *, width: int = 50) -> np.ndarray:
    """(N, width) uint16 character ids of each word; bytes beyond `width - 2` are dropped, as in ELMo."""
    rows = np.full((len(words), width), PADDING, dtype=np.uint16)
    rows[:, 0] = WORD_BEGIN
    spelled = [word.encode("utf-8")[: width - 2] for word in words]
    lengths = np.fromiter(map(len, spelled), np.int64, len(spelled))
    columns = np.arange(width - 2)
    rows[:, 1:-1][columns < lengths[:, None]] = np.frombuffer(b"".join(spelled), dtype=np.uint8)
    rows[np.arange(len(words)), lengths + 1] = WORD_END
    return rows


def vocabulary_characters(vocabulary: Sequence[str], *, width: int = 50) -> np.ndarray:
    """(V, width) the row of each id; <S> and </S> have the marks of a sentence instead of letters."""
    rows = word_characters(vocabulary, width=width)
    for token, mark in (("<S>", SENTENCE_BEGIN), ("</S>", SENTENCE_END)):
        if token in vocabulary:
            row = rows[vocabulary.index(token)]
            row[:] = PADDING
            row[:3] = WORD_BEGIN, mark, WORD_END
    return rows


class Highway(nn.Module):
    """x → s · relu(W x) + (1 − s) · x, with a learned gate s for every feature, which starts near 0."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.share = nn.Linear(width, width)
        self.change = nn.Linear(width, width)
        for layer, bias in ((self.share, -2.0), (self.change, 0.0)):
            nn.init.normal_(layer.weight, std=math.sqrt(1.0 / width))
            nn.init.constant_(layer.bias, bias)

    def forward(self, x_UF: Tensor) -> Tensor:
        """Same shape in and out."""
        return torch.lerp(x_UF, torch.relu(self.change(x_UF)), torch.sigmoid(self.share(x_UF)))


class CharacterCNN(nn.Module):
    """(U, L) character ids in, (U, P) out."""

    def __init__(
        self,
        characters: int,
        character_width: int,
        filters: Sequence[tuple[int, int]],
        highways: int,
        width: int,
        *,
        padding: int,
    ) -> None:
        """`filters` are pairs of a width in characters and a count; `padding` is the id behind a word's end."""
        super().__init__()
        self.padding = padding
        self.characters = nn.Embedding(characters, character_width)
        self.convolutions = nn.ModuleList(nn.Conv1d(character_width, count, span) for span, count in filters)
        total = sum(count for _, count in filters)
        self.highways = nn.ModuleList(Highway(total) for _ in range(highways))
        self.projection = nn.Linear(total, width)
        self.widest = max(span for span, _ in filters)
        nn.init.uniform_(self.characters.weight, -1.0, 1.0)
        for convolution in self.convolutions:
            assert isinstance(convolution, nn.Conv1d)
            nn.init.uniform_(convolution.weight, -0.05, 0.05)
            assert convolution.bias is not None
            nn.init.zeros_(convolution.bias)
        nn.init.normal_(self.projection.weight, std=math.sqrt(1.0 / total))
        nn.init.zeros_(self.projection.bias)

    def forward(self, rows_UL: Tensor) -> Tensor:
        """(U, P) the words' vectors."""
        x_UAL = self.characters(self._trimmed(rows_UL).long()).transpose(1, 2)
        x_UF = torch.cat([torch.relu(convolution(x_UAL).amax(dim=-1)) for convolution in self.convolutions], dim=-1)
        for highway in self.highways:
            x_UF = highway(x_UF)
        return self.projection(x_UF)  # type: ignore[no-any-return]

    def _trimmed(self, rows_UL: Tensor) -> Tensor:
        """The rows without columns that change nothing.

        Behind the longest word every window holds padding alone and responds the same; one of them has to stay.
        """
        used_L = (rows_UL != self.padding).any(dim=0)
        longest = int(used_L.nonzero().max()) + 1 if bool(used_L.any()) else 0
        return rows_UL[:, : longest + self.widest]
