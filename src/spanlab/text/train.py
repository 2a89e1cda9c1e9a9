"""Training a tokenizer from a stream of text.

What enters is text in any number of strings; what leaves is a `Tokenizer`, the same for the same text every time.
That takes some care: `tokenizers` numbers the characters inside words in the order of a hash table, so that WordPiece
vocabularies differ from run to run. Here the characters are collected first (`alphabet`), in one more pass over the
text, and numbered in order. Unigram's pieces are learnt by `unigram_training`.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from spanlab.errors import ConfigError, InputError, MissingExtraError
from spanlab.text.casing import lacks_capitals
from spanlab.text.sentencepiece import parse_sentencepiece
from spanlab.text.special_tokens import SYSTEMS, SpecialTokens, System, batch_sequences
from spanlab.text.tokenizer import Kind, Tokenizer
from spanlab.text.words import ALONE, HAN, character_classes, code_points


@dataclass(frozen=True, kw_only=True)
class Alphabet:
    """The characters of a WordPiece vocabulary."""

    inner: tuple[str, ...]
    """Those that may stand inside a word, in order of code points."""
    left_out: str
    """Characters of the text that get no id."""

    def spelled(self, texts: Iterable[str]) -> Iterable[str]:
        """The texts with a space for each character left out."""
        if not self.left_out:
            return texts
        blanks = str.maketrans(dict.fromkeys(self.left_out, " "))
        return (text.translate(blanks) for text in texts)


def by_frequency(characters: Counter[str]) -> list[str]:
    """The most frequent first; in order of code points where the counts are the same."""
    return sorted(characters, key=lambda character: (-characters[character], character))


def collect_alphabet(texts: Iterable[str], normalizer: Any, *, room: int, split_chinese: bool) -> Alphabet:  # noqa: ANN401
    """The alphabet of the texts as `normalizer` changes them, in at most `room` ids.

    A character that may stand inside a word takes two ids, one for its place at the beginning.
    """
    written: Counter[str] = Counter()
    for text in texts:
        written.update(text)
    spelling = {character: set(normalizer.normalize_str(character)) - {" "} for character in written}
    counts: Counter[str] = Counter()
    for character, count in written.items():
        counts.update(dict.fromkeys(spelling[character], count))
    ranked = by_frequency(counts)
    inner = set(_inner(ranked, split_chinese))
    kept: set[str] = set()
    for character in ranked:
        room -= 2 if character in inner else 1
        if room < 0:
            break
        kept.add(character)
    left_out = "".join(sorted(character for character, letters in spelling.items() if not letters <= kept))
    return Alphabet(inner=tuple(sorted(inner & kept)), left_out=left_out)


def _inner(characters: list[str], split_chinese: bool) -> Iterator[str]:
    """Those that a pre-tokenizer does not make words of their own."""
    alone = {ALONE, HAN} if split_chinese else {ALONE}
    classes = character_classes(code_points("".join(characters))).tolist()
    return (character for character, its_class in zip(characters, classes, strict=True) if its_class not in alone)


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


_SYSTEM_OF_KIND: dict[Kind, System] = {"wordpiece": "bert", "bpe": "roberta", "unigram": "albert", "word": "elmo"}


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """What tokenizer to train."""

    kind: Kind
    vocab_size: int
    """Ids in all, special tokens included; a small text may give fewer."""
    system: System | None = None
    """Whose special tokens; None: BERT's for wordpiece, RoBERTa's for bpe, ALBERT's for unigram, ELMo's for word."""
    lowercase: bool = False
    strip_accents: bool | None = None
    """None: accents go if capitals go, as in BERT."""
    split_chinese: bool = True
    """Whether each Han character is a word to wordpiece and word."""
    min_frequency: int | None = None
    """How often a pair (wordpiece, bpe) or a word (unigram, word) must occur to be learnt; None: 2, for unigram 1."""

    def __post_init__(self) -> None:
        least = len(self.special.tokens) + (256 if self.kind == "bpe" else 1)
        if self.vocab_size < least:
            raise ConfigError(f"the vocabulary size is {self.vocab_size}; {self.kind} needs at least {least}")
        if self.min_frequency is not None and self.min_frequency < 1:
            raise ConfigError(f"the least frequency is {self.min_frequency}; it must be at least 1")
        if self.system == "gpt" and self.kind != "bpe":
            raise ConfigError(f"gpt has no token for the unknown, which {self.kind} needs", fix="use bpe")

    @property
    def special_system(self) -> System:
        """The system whose special tokens are used."""
        return self.system or _SYSTEM_OF_KIND[self.kind]

    @property
    def special(self) -> SpecialTokens:
        """The special tokens used."""
        return SYSTEMS[self.special_system]

    @property
    def least_frequency(self) -> int:
        """`min_frequency`, or what it is by default."""
        return self.min_frequency or (1 if self.kind == "unigram" else 2)


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train on `texts`, which are gone through once or twice: a list or a stream that can be read again."""
    if isinstance(texts, Iterator):
        raise TypeError("texts can be read only once; give a list or an object with __iter__")
    trainers = {"wordpiece": _train_wordpiece, "bpe": _train_bpe, "unigram": _train_unigram, "word": _train_words}
    backend = trainers[config.kind](texts, config)
    batch_sequences(backend, config.special_system)
    words = [word for word in backend.get_vocab() if word not in config.special.tokens]
    if not words:
        raise InputError("the text holds no words", fix="give text to train on")
    if config.kind != "bpe" and not config.lowercase and lacks_capitals(words):
        raise InputError("the text holds no capital letter, so every capital would be unknown", fix="add --lowercase")
    return Tokenizer(backend)


def _train_wordpiece(texts: Iterable[str], config: TokenizerConfig) -> Any:  # noqa: ANN401 (tokenizers.Tokenizer)
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, trainers

    unknown = config.special.roles["unk"]
    backend = Backend(models.WordPiece(unk_token=unknown))
    _split_like_bert(backend, config, clean=True)
    special = list(config.special.tokens)
    alphabet = collect_alphabet(
        texts, backend.normalizer, room=(config.vocab_size - len(special)) // 2, split_chinese=config.split_chinese
    )
    inside = [f"##{character}" for character in alphabet.inner]
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.least_frequency,
        special_tokens=special + inside,  # the only way to have them numbered in a given order
        show_progress=False,
    )
    backend.train_from_iterator(alphabet.spelled(texts), trainer)
    fitted = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    rest = [token for token, _ in fitted if token not in special]
    vocabulary = {token: number for number, token in enumerate(special + rest)}
    final = Backend(models.WordPiece(vocabulary, unk_token=unknown))
    final.normalizer, final.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    final.decoder = decoders.WordPiece(prefix="##")
    final.add_special_tokens(special)
    return final


def _train_words(texts: Iterable[str], config: TokenizerConfig) -> Any:  # noqa: ANN401
    """Whole words, their characters untouched: what ELMo's character network reads."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import models, trainers

    backend = Backend(models.WordLevel(unk_token=config.special.roles["unk"]))
    _split_like_bert(backend, config, clean=False)
    trainer = trainers.WordLevelTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.least_frequency,
        special_tokens=list(config.special.tokens),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    return backend


def _split_like_bert(backend: Any, config: TokenizerConfig, *, clean: bool) -> None:  # noqa: ANN401
    from tokenizers import normalizers, pre_tokenizers

    backend.normalizer = normalizers.BertNormalizer(
        clean_text=clean,
        handle_chinese_chars=config.split_chinese,
        strip_accents=config.strip_accents,
        lowercase=config.lowercase,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()


def _train_bpe(texts: Iterable[str], config: TokenizerConfig) -> Any:  # noqa: ANN401
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

    backend = Backend(models.BPE())
    steps = _folding(config)
    backend.normalizer = normalizers.Sequence([*steps, normalizers.NFC()]) if steps else None
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    special = list(config.special.tokens)
    last = special if config.special.last_id else []
    trainer = trainers.BpeTrainer(
        vocab_size=config.vocab_size - len(last),
        min_frequency=config.least_frequency,
        special_tokens=[] if last else special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator(texts, trainer)
    backend.add_special_tokens(last)
    return backend


def _train_unigram(texts: Iterable[str], config: TokenizerConfig) -> Any:  # noqa: ANN401
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, normalizers, pre_tokenizers

    special = list(config.special.tokens)
    normalizer = normalizers.Sequence([*_folding(config), normalizers.NFKC()])
    pieces = train_unigram(
        texts, normalizer, vocab_size=config.vocab_size - len(special), min_frequency=config.least_frequency
    )
    vocabulary = [(token, 0.0) for token in special] + [piece for piece in pieces if piece[0] not in special]
    unknown = special.index(config.special.roles["unk"])
    backend = Backend(models.Unigram(vocabulary, unk_id=unknown, byte_fallback=False))
    backend.normalizer = normalizer
    words = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), words])
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    backend.add_special_tokens(special)
    return backend


def _folding(config: TokenizerConfig) -> list[Any]:
    """The steps that take accents and capitals off."""
    from tokenizers import normalizers

    strips = config.lowercase if config.strip_accents is None else config.strip_accents
    accents = [normalizers.NFKD(), normalizers.StripAccents()] if strips else []
    return accents + ([normalizers.Lowercase()] if config.lowercase else [])
