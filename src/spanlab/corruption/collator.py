"""Span masking for any training loop: lists of token ids in, padded torch tensors out.

Works with our tokenizers and with transformers' fast ones, on any encoder, as a `collate_fn` or called by hand:

    masking = SpanMasking(tokenizer, seed=0)
    loader = DataLoader(dataset, batch_size=32, collate_fn=masking)

Each feature is a list of ids with its special tokens, or a mapping with `input_ids` and, optionally, `word_starts`
(flags of the first tokens of words; derived from the vocabulary if missing) and `index` (of the sample; without it
features are counted, and masks depend on the order of features). Set `epoch` to draw new masks.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spanlab.arrays import Integers, offsets
from spanlab.config import from_mapping
from spanlab.corruption.examples import ExampleBatch
from spanlab.corruption.masking import Masking, MaskingConfig
from spanlab.corruption.replacement import RandomTokens
from spanlab.corruption.special_tokens import SpecialTokenLayout, batch_sequences
from spanlab.errors import InputError
from spanlab.text.words import VocabularyWords

if TYPE_CHECKING:
    from torch import Tensor

Feature = Mapping[str, Any] | Sequence[int]
IGNORED = -100
"""The label of tokens that are not predicted: the default `ignore_index` of torch's cross-entropy."""


class SpanMasking:
    """A collator that masks spans and returns their targets and boundaries."""

    def __init__(
        self,
        tokenizer: Any,  # noqa: ANN401 (ours or transformers')
        *,
        seed: int = 0,
        boundaries: bool = True,
        **masking: Any,  # noqa: ANN401 (keys of a recipe's masking section)
    ) -> None:
        """`boundaries=False` omits the inputs of the span boundary objective; `masking` are keys of `MaskingConfig`."""
        vocabulary, special_ids, mask_id, pad_id = _read_tokenizer(tokenizer)
        config = from_mapping(MaskingConfig, {"random_from": "vocabulary", **masking})
        random_tokens = RandomTokens(len(vocabulary), special_ids)
        self._masking = Masking(config, mask_id=mask_id, random_tokens=random_tokens)
        self._layout = SpecialTokenLayout(cls_id=None, sep_id=None, special_ids=special_ids)
        self._words = VocabularyWords(vocabulary)
        self._pad_id, self._seed, self._boundaries = pad_id, seed, boundaries
        self._count = 0
        self.epoch = 0
        """The epoch that masks are drawn for."""

    def __call__(self, features: Sequence[Feature]) -> "dict[str, Tensor]":
        """Mask a batch; returns padded tensors.

        `input_ids`, `attention_mask` and `labels` are (B, T). `span_position`, `span_target`, `span_left`,
        `span_right` and `span_offset` are (S,), one per masked token of a span with a token on both sides; positions
        are indices into the flattened (B·T) batch. With `collapse=True`, `labels` has the first token of a collapsed
        span at its mask, and `span_target` all of them.
        """
        return self._padded(self.mask(features))

    def mask(self, features: Sequence[Feature]) -> ExampleBatch:
        """Mask a batch; returns packed arrays without padding."""
        if not features:
            raise InputError("the list of features is empty; there is nothing to mask")
        sequences, word_starts = [], []
        for feature in features:
            fields = feature if isinstance(feature, Mapping) else {"input_ids": feature}
            ids, starts = np.asarray(fields["input_ids"], np.int64), fields.get("word_starts")
            if starts is None:
                starts = self._words.word_starts(ids, np.isin(ids, self._layout.special_ids))
            sequences.append(ids)
            word_starts.append(starts)
        tokens = batch_sequences(sequences, word_starts, self._layout, indices=self._indices(features))
        return self._masking(tokens, seed=self._seed, epoch=self.epoch)

    def _indices(self, features: Sequence[Feature]) -> list[int]:
        counted = range(self._count, self._count + len(features))
        self._count += len(features)
        return [
            int(feature.get("index", count)) if isinstance(feature, Mapping) else count
            for feature, count in zip(features, counted, strict=True)
        ]

    def _padded(self, examples: ExampleBatch) -> "dict[str, Tensor]":
        import torch

        lengths = examples.lengths
        batch, width = len(lengths), int(lengths.max())
        # The position of each flat token in the padded batch.
        row = np.repeat(np.arange(batch), lengths)
        padded = row * width + np.arange(len(row)) - np.repeat(offsets(lengths), lengths)
        input_ids = np.full(batch * width, self._pad_id, np.int64)
        input_ids[padded] = examples.input_ids
        mask, labels = np.zeros(batch * width, np.int64), np.full(batch * width, IGNORED, np.int64)
        mask[padded] = 1
        first = slice(None) if examples.offsets is None else examples.offsets == 0
        labels[padded[examples.positions[first]]] = examples.targets[first]
        grid = {"input_ids": input_ids, "attention_mask": mask, "labels": labels}
        tensors: dict[str, Integers] = {name: flat.reshape(batch, width) for name, flat in grid.items()}
        if self._boundaries and examples.boundaries is not None:
            boundaries = examples.boundaries
            tensors["span_position"] = padded[boundaries.positions]
            tensors["span_target"] = boundaries.targets
            tensors["span_left"] = padded[boundaries.left]
            tensors["span_right"] = padded[boundaries.right]
            tensors["span_offset"] = boundaries.offsets
        return {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in tensors.items()}


def _read_tokenizer(tokenizer: Any) -> tuple[Sequence[str], tuple[int, ...], int | None, int]:  # noqa: ANN401
    """(vocabulary in the order of ids, special ids, mask id, padding id) of a tokenizer of SpanLab or transformers."""
    if hasattr(tokenizer, "special_ids"):
        return tokenizer.vocabulary, tokenizer.special_ids, tokenizer.mask_id, tokenizer.pad_id or 0
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise InputError(f"a {type(tokenizer).__name__} is not a tokenizer", fix="pass one of SpanLab or transformers")
    vocabulary = [token or "" for token in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    return vocabulary, tuple(tokenizer.all_special_ids), tokenizer.mask_token_id, tokenizer.pad_token_id or 0
