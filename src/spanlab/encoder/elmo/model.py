"""ELMo: words read by their characters, then from left to right and from right to left by LSTMs.

Peters et al. 2018. To the rest of the house it is an encoder over word ids like the others: a table of each word's
characters stands where others have a table of vectors. Words outside the vocabulary can be given as characters instead.
Each distinct word of a batch goes through the character network once.

The LSTM is exact: cells and projections are cut off at the published bound (`recurrence.py`), at the speed of torch's
own LSTM with projections, which has no bound.

Shapes: B sequences, T padded length, N tokens, L characters of a word, P width of a direction, D = 2 P, V vocabulary.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from spanlab.encoder.batch import read_batch
from spanlab.encoder.elmo.character_cnn import CHARACTERS, PADDING, CharacterCNN, vocabulary_characters
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.encoder.elmo.lstm import Reader, time_major
from spanlab.encoder.model import Encoder, EncoderOutput
from spanlab.encoder.packing import Packing
from spanlab.errors import InputError


class ScalarMixture(nn.Module):
    """The mixture of a fixed number of layers; it begins as their plain mean."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Sequence[Tensor]) -> Tensor:
        """One tensor shaped like each of the layers."""
        shares = self.weights.softmax(dim=0) * self.scale
        mixed = layers[0] * shares[0]
        for layer, share in zip(layers[1:], shares[1:], strict=True):
            mixed = mixed + layer * share
        return mixed


class Elmo(Encoder):
    """A bidirectional language model as an encoder; of an `Encoder` it has the face, not the parts."""

    characters: Tensor
    """(V, L) the characters of each word."""

    def __init__(self, shape: ElmoConfig, vocabulary: Sequence[str] | None = None) -> None:
        """New weights; without a vocabulary, the table of characters is empty and waits to be loaded."""
        nn.Module.__init__(self)
        self.shape = shape
        self.config = shape.face()
        if vocabulary is None:
            rows = torch.full((shape.vocab_size, shape.max_characters), PADDING, dtype=torch.int16)
        else:
            rows = torch.from_numpy(vocabulary_characters(vocabulary, width=shape.max_characters).astype("int16"))
        if len(rows) != shape.vocab_size:
            raise InputError(f"the vocabulary has {len(rows)} words and the config {shape.vocab_size}")
        self.register_buffer("characters", rows)
        self.words = CharacterCNN(
            CHARACTERS, shape.character_width, shape.filters, shape.highways, shape.projection, padding=PADDING
        )
        self.forward_reader = self._reader()
        self.backward_reader = self._reader()
        self.mixture = ScalarMixture(shape.layers + 1)
        self.pooler = None

    def _reader(self) -> Reader:
        shape = self.shape
        return Reader(shape.layers, shape.cells, shape.projection, clip=shape.clip, dropout=shape.dropout)

    @classmethod
    def from_pretrained(cls, folder_or_id: str | Path, *, revision: str | None = None) -> "Elmo":
        """The ELMo in a model folder, a run folder or a Hugging Face repository."""
        encoder = super().from_pretrained(folder_or_id, revision=revision)
        if not isinstance(encoder, Elmo):
            raise InputError(f"a {encoder.config.architecture} encoder, not an ELMo", path=folder_or_id)
        return encoder

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        head_mask: Tensor | None = None,
        lengths: Tensor | None = None,
        output_attentions: bool = False,
        output_hidden_states: bool = False,
        characters: Tensor | None = None,
    ) -> EncoderOutput:
        """As `Encoder.forward`, on word ids; `hidden` is the learnt mixture of the layers.

        `characters`, (B, T, L) or (N, L) in the numbering of `text.characters`, stand in place of `input_ids`; so do
        `inputs_embeds`, words' vectors of width P. There is no attention, no position and no segment to be given.
        """
        foreign = {"position_ids": position_ids is not None, "head_mask": head_mask is not None}
        for name in (name for name, given in {**foreign, "output_attentions": output_attentions}.items() if given):
            raise InputError(f"an elmo encoder has no {name}", fix="leave it out")
        if characters is not None:
            if input_ids is not None or inputs_embeds is not None:
                raise InputError("an elmo encoder takes one of input_ids, characters and inputs_embeds")
            inputs_embeds = self.words(characters.flatten(0, -2)).unflatten(0, characters.shape[:-1])
        batch = read_batch(
            self.config,
            input_ids=input_ids,
            attention_mask=attention_mask,
            token_type_ids=token_type_ids,
            position_ids=None,
            inputs_embeds=inputs_embeds,
            lengths=lengths,
        )
        x_NP = batch.embeds_NE if batch.input_ids_N is None else self.word_vectors(batch.input_ids_N)
        assert x_NP is not None
        packing = batch.packing
        layers = self._read_both_ways(x_NP, packing)
        return EncoderOutput(
            hidden=packing.restore(self.mixture(layers)),
            hidden_states=tuple(packing.restore(layer) for layer in layers) if output_hidden_states else None,
        )

    def _read_both_ways(self, x_NP: Tensor, packing: Packing) -> list[Tensor]:
        """(N, D) the words themselves, and every layer: forwards in the left half, backwards in the right."""
        lengths = packing.sequence_lengths
        ahead, _ = self.forward_reader(x_NP, time_major(lengths, x_NP.device))
        behind, _ = self.backward_reader(x_NP, time_major(lengths, x_NP.device, backward=True))
        pairs = [(x_NP, x_NP), *zip(ahead, behind, strict=True)]
        return [torch.cat(pair, dim=-1) for pair in pairs]

    def word_vectors(self, ids_N: Tensor) -> Tensor:
        """(N, P) the character network's vector of each word."""
        distinct_U, place_N = torch.unique(ids_N, return_inverse=True)
        return self.words(self.characters.index_select(0, distinct_U)).index_select(0, place_N)  # type: ignore[no-any-return]

    @property
    def word_table(self) -> Tensor:
        """(V, P) the vectors of all words, computed from their characters."""
        return self.words(self.characters)  # type: ignore[no-any-return]
