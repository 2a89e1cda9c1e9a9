"""Learning the pieces of a Unigram vocabulary (ALBERT, XLNet) with SentencePiece.

What enters is a stream of text; what leaves is pieces with scores, the same for the same text every time (the Unigram
trainer of `tokenizers` gives another vocabulary on every run). The words are counted first and handed over with their
counts, so memory goes with the number of different words, and is bounded: rare words are forgotten when there are
too many.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from spanlab.errors import InputError, MissingExtraError
from spanlab.text.alphabet import by_frequency
from spanlab.text.sentencepiece import parse_sentencepiece

_MOST_WORDS = 1 << 21
_LONGEST_WORD = 32
"""A longer run without spaces (Chinese, web addresses) is counted in parts."""
_PARTS = re.compile(r"\w{1,32}|\W{1,32}")


def train_unigram(
    texts: Iterable[str],
    normalizer: Any,  # noqa: ANN401 (of tokenizers)
    *,
    vocab_size: int,
    min_frequency: int,
) -> list[tuple[str, float]]:
    """Pieces and scores, at most `vocab_size` of them, without any special token."""
    try:
        import sentencepiece
    except ImportError:
        raise MissingExtraError("data", "training a unigram tokenizer") from None
    counts = _normalized(_count_words(texts), normalizer)
    words = _with_frequent_characters(counts, vocab_size // 2, min_frequency)
    if not words:
        raise InputError("the text holds no words", fix="give text to train on")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in words),
        input_format="tsv",
        model_writer=model,
        model_type="unigram",
        vocab_size=vocab_size + 1,  # and the unknown
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        add_dummy_prefix=False,  # the words have theirs
        remove_extra_whitespaces=False,
        max_sentence_length=1 << 16,
        bos_id=-1,
        eos_id=-1,
        num_threads=4,  # the scores depend on it in their last digits: it must not follow the machine
        minloglevel=2,
    )
    fitted = parse_sentencepiece(model.getvalue())
    return [piece for number, piece in enumerate(fitted.pieces) if number != fitted.unknown_id]


def _count_words(texts: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
        if len(counts) > _MOST_WORDS:
            counts = Counter({word: count for word, count in counts.items() if count > 1})
    return counts


def _normalized(counts: Counter[str], normalizer: Any) -> Counter[str]:  # noqa: ANN401
    """Counts of the words as the tokenizer will see them, with the mark of a beginning; long ones in parts."""
    normalized: Counter[str] = Counter()
    for word, count in counts.items():
        for part in normalizer.normalize_str(word).split():
            for piece in _parts(f"▁{part}"):
                normalized[piece] += count
    return normalized


def _parts(word: str) -> Iterator[str]:
    if len(word) <= _LONGEST_WORD:
        yield word
    else:
        yield from _PARTS.findall(word)


def _with_frequent_characters(counts: Counter[str], most: int, min_frequency: int) -> list[tuple[str, int]]:
    """The words that occur often enough and are spelled with the `most` most frequent characters, in order."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    rare = set(characters).difference(by_frequency(characters)[:most])
    return sorted((word, count) for word, count in counts.items() if count >= min_frequency and rare.isdisjoint(word))
