"""Span masking for any training loop: lists of token ids in, padded torch tensors out.

Works with our tokenizers and with transformers' fast ones, on any encoder, as a `collate_fn` or called by hand:

    masking = SpanMasking(tokenizer, seed=0)
    loader = DataLoader(dataset, batch_size=32, collate_fn=masking)

Each feature is a list of ids with its special tokens, or a mapping with `input_ids` and, optionally, `word_starts`
(where words begin; else from the ids) and `index` (which sample it is; else counted, and then the masks depend on
the order in which samples come). `epoch` is set by the caller; masks are drawn anew for each.
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
"""The label of tokens that are not predicted, as torch's cross-entropy ignores it."""


class SpanMasking:
    """A collator that masks spans and says what surrounds them."""

    def __init__(
        self,
        tokenizer: Any,  # noqa: ANN401 (ours or transformers')
        *,
        seed: int = 0,
        boundaries: bool = True,
        **masking: Any,  # noqa: ANN401 (keys of a recipe's masking section)
    ) -> None:
        """`boundaries=False` leaves out what only the span boundary objective needs; the rest are masking settings."""
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
        """A masked batch as padded tensors.

        `input_ids`, `attention_mask` and `labels` are (B, T). Per masked token with two neighbours (S,) there are
        `span_position`, `span_target`, `span_left`, `span_right` and `span_offset`; positions count through the
        flattened (B·T) batch.
        """
        return self._padded(self.mask(features))

    def mask(self, features: Sequence[Feature]) -> ExampleBatch:
        """The same examples as flat arrays without padding."""
        if not features:
            raise InputError("there is nothing to mask: the list of features is empty")
        rows = [np.asarray(f["input_ids"] if isinstance(f, Mapping) else f, np.int64) for f in features]
        given = [f.get("word_starts") if isinstance(f, Mapping) else None for f in features]
        specials = [np.isin(ids, self._layout.special_ids) for ids in rows]
        starts = [
            self._words.word_starts(ids, special) if flags is None else np.asarray(flags, bool)
            for ids, special, flags in zip(rows, specials, given, strict=True)
        ]
        tokens = batch_sequences(rows, starts, self._layout, indices=self._indices(features))
        return self._masking(tokens, seed=self._seed, epoch=self.epoch)

    def _indices(self, features: Sequence[Feature]) -> list[int]:
        counted = range(self._count, self._count + len(features))
        self._count += len(features)
        return [
            int(feature.get("index", position)) if isinstance(feature, Mapping) else position
            for feature, position in zip(features, counted, strict=True)
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
        labels[padded[examples.positions]] = examples.targets
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
    """Vocabulary in the order of ids, special ids, mask id and padding id of our tokenizer or one of transformers."""
    if hasattr(tokenizer, "special_ids"):
        return tokenizer.vocabulary, tokenizer.special_ids, tokenizer.mask_id, tokenizer.pad_id or 0
    if not hasattr(tokenizer, "convert_ids_to_tokens"):
        raise InputError(f"a {type(tokenizer).__name__} is no tokenizer", fix="give one of SpanLab's or transformers'")
    vocabulary = [token or "" for token in tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))]
    return vocabulary, tuple(tokenizer.all_special_ids), tokenizer.mask_token_id, tokenizer.pad_token_id or 0
