"""ELMo: words read by their characters, then from left to right and from right to left by LSTMs.

Peters et al. 2018. It takes word ids like the other encoders: a table of each word's characters replaces the table of
embeddings. Words outside the vocabulary can be given as characters instead. Each distinct word of a batch goes through
the character network once.

The LSTM clips cells and projections at the published bound (`lstm.py`), at the speed of torch's own LSTM with
projections, which has no bound.

Shapes: B sequences, T padded length, N tokens, L characters of a word, P width of a direction, D = 2 P, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from spanlab.encoder.batch import read_batch
from spanlab.encoder.elmo.character_cnn import CHARACTERS, PADDING, CharacterCNN, vocabulary_characters
from spanlab.encoder.elmo.config import ElmoConfig
from spanlab.encoder.elmo.lstm import DirectionalLSTM, time_major
from spanlab.encoder.model import Encoder, EncoderOutput
from spanlab.encoder.packing import Packing
from spanlab.errors import ConfigError, InputError


class ScalarMixture(nn.Module):
    """A weighted sum of a fixed number of layers, initialised to their mean."""

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


class ElmoEncoder(Encoder):
    """A bidirectional language model as an encoder."""

    characters: Tensor
    """(V, L) the characters of each word."""

    def __init__(self, config: ElmoConfig, vocabulary: Sequence[str] | None = None) -> None:
        """Random weights; without a vocabulary, the table of characters is empty until it is loaded."""
        super().__init__()
        if not isinstance(config, ElmoConfig):
            raise ConfigError("an ELMo is built from an ElmoConfig", fix="use elmo_preset")
        self.elmo_config = config
        self.config = config.encoder_config()
        if vocabulary is None:
            rows = torch.full((config.vocab_size, config.max_characters), PADDING, dtype=torch.int16)
        else:
            rows = torch.from_numpy(vocabulary_characters(vocabulary, width=config.max_characters).astype("int16"))
        if len(rows) != config.vocab_size:
            raise InputError(f"the vocabulary has {len(rows)} words and the config {config.vocab_size}")
        self.register_buffer("characters", rows)
        self.words = CharacterCNN(
            CHARACTERS, config.character_width, config.filters, config.highways, config.projection, padding=PADDING
        )
        self.forward_reader = self._new_lstm()
        self.backward_reader = self._new_lstm()
        self.mixture = ScalarMixture(config.layers + 1)
        self.pooler = None

    def _new_lstm(self) -> DirectionalLSTM:
        config = self.elmo_config
        return DirectionalLSTM(config.layers, config.cells, config.projection, clip=config.clip, dropout=config.dropout)

    @override
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
        prefix_lengths: Tensor | None = None,
        characters: Tensor | None = None,
    ) -> EncoderOutput:
        """`hidden` is the learned mixture of the layers. There are no attentions, positions and segments.

        `characters`, (B, T, L) or (N, L) as `character_cnn.word_characters` numbers them, replace `input_ids`; so do
        `inputs_embeds`, word vectors of width P.
        """
        unknown = {
            "position_ids": position_ids is not None,
            "head_mask": head_mask is not None,
            "output_attentions": output_attentions,
        }
        for name, is_given in unknown.items():
            if is_given:
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
            prefix_lengths=prefix_lengths,
        )
        x_NP = batch.embeds_NE if batch.input_ids_N is None else self.word_vectors(batch.input_ids_N)
        assert x_NP is not None
        packing = batch.packing
        layers = self._run_lstms(x_NP, packing)
        return EncoderOutput(
            hidden=packing.restore(self.mixture(layers)),
            hidden_states=tuple(packing.restore(layer) for layer in layers) if output_hidden_states else None,
        )

    def _run_lstms(self, x_NP: Tensor, packing: Packing) -> list[Tensor]:
        """(N, D) the word vectors, then every layer: forward in the left half, backward in the right."""
        lengths = packing.sequence_lengths
        forward, _ = self.forward_reader(x_NP, time_major(lengths, x_NP.device))
        backward, _ = self.backward_reader(x_NP, time_major(lengths, x_NP.device, backward=True))
        pairs = [(x_NP, x_NP), *zip(forward, backward, strict=True)]
        return [torch.cat(pair, dim=-1) for pair in pairs]

    def word_vectors(self, ids_N: Tensor) -> Tensor:
        """(N, P) the character network's vector of each word."""
        distinct_U, index_N = torch.unique(ids_N, return_inverse=True)
        return self.words(self.characters.index_select(0, distinct_U)).index_select(0, index_N)  # type: ignore[no-any-return]

    @property
    @override
    def word_table(self) -> Tensor:
        """(V, P) the vectors of all words, computed from their characters."""
        return self.words(self.characters)  # type: ignore[no-any-return]

    @override
    def replace_word_table(self, table_VE: Tensor, *, pad_id: int | None) -> None:
        raise InputError("the vocabulary of an ELMo cannot be replaced")

    @property
    @override
    def full_config(self) -> ElmoConfig:
        return self.elmo_config

    @override
    def flops_per_token(self, length: int) -> int:
        """Of the LSTMs; the character network runs once for each distinct word and is not counted."""
        config = self.elmo_config
        matrices = 4 * config.cells * 2 * config.projection + config.cells * config.projection
        return 2 * 2 * config.layers * matrices
