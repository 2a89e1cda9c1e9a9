"""Training a tokenizer from a stream of text.

What enters is text in any number of strings; what leaves is a `Tokenizer`, the same every time for the same text.
`tokenizers` gives ids to the characters inside words in the order of a hash table, so that WordPiece vocabularies
differ from run to run; here the characters are collected first, in one more pass over the text, and get their ids in
order. Unigram pieces are trained by SentencePiece on word counts.
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

from spanlab.config import AtLeast, AtMost, Bounded
from spanlab.errors import ConfigError, InputError, MissingExtraError
from spanlab.text.casing import lacks_capitals
from spanlab.text.sentencepiece import parse_sentencepiece
from spanlab.text.special_tokens import SYSTEMS, SpecialTokens, System, set_template
from spanlab.text.tokenizer import Kind, Tokenizer
from spanlab.text.words import ALONE, HAN, character_classes, code_points

_SYSTEM_OF_KIND: dict[Kind, System] = {"wordpiece": "bert", "bpe": "roberta", "unigram": "albert", "word": "elmo"}

_MOST_WORDS = 1 << 21
_LONGEST_WORD = 32
"""Longer runs without spaces (Chinese, web addresses) are counted in parts."""
_PARTS = re.compile(r"\w{1,32}|\W{1,32}")


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig(Bounded):
    """Which tokenizer to train."""

    kind: Kind
    vocab_size: Annotated[int, AtMost(10_000_000)]
    """Including special tokens; a small text may give fewer."""
    system: System | None = None
    """Whose special tokens; None: BERT's for wordpiece, RoBERTa's for bpe, ALBERT's for unigram, ELMo's for word."""
    lowercase: bool = False
    strip_accents: bool | None = None
    """None: as `lowercase`, as in BERT."""
    split_chinese: bool = True
    """Whether wordpiece and word treat each Han character as a word."""
    min_frequency: Annotated[int, AtLeast(1)] | None = None
    """How often a pair (wordpiece, bpe) or a word (unigram, word) must occur; None: 2, for unigram 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        least = len(self.special.tokens) + (256 if self.kind == "bpe" else 1)
        if self.vocab_size < least:
            raise ConfigError(f"the vocabulary size is {self.vocab_size}; {self.kind} needs at least {least}")
        if self.system == "gpt" and self.kind != "bpe":
            raise ConfigError(f"gpt has no unknown token, which {self.kind} needs", fix="use bpe")

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
        """`min_frequency` or its default."""
        return self.min_frequency or (1 if self.kind == "unigram" else 2)


def train_tokenizer(texts: Iterable[str], config: TokenizerConfig) -> Tokenizer:
    """Train on `texts`: a list or an iterable that can be read twice."""
    if isinstance(texts, Iterator):
        raise TypeError("texts can be read only once; give a list or an object with __iter__")
    trainers = {"wordpiece": _train_wordpiece, "bpe": _train_bpe, "unigram": _train_unigram, "word": _train_words}
    backend = trainers[config.kind](texts, config)
    set_template(backend, config.special_system)
    words = [word for word in backend.get_vocab() if word not in config.special.tokens]
    if not words:
        raise InputError("the text has no words", fix="give text to train on")
    if config.kind != "bpe" and not config.lowercase and lacks_capitals(words):
        raise InputError("the text has no capital letter, so every capital would be unknown", fix="add --lowercase")
    return Tokenizer(backend)


def _train_wordpiece(texts: Iterable[str], config: TokenizerConfig) -> Any:  # noqa: ANN401 (tokenizers.Tokenizer)
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, trainers

    unknown = config.special.roles["unk"]
    backend = Backend(models.WordPiece(unk_token=unknown))
    _split_like_bert(backend, config, clean=True)
    special = list(config.special.tokens)
    alphabet = _collect_alphabet(
        texts, backend.normalizer, size=(config.vocab_size - len(special)) // 2, split_chinese=config.split_chinese
    )
    inside = [f"##{character}" for character in alphabet.inner]
    trainer = trainers.WordPieceTrainer(
        vocab_size=config.vocab_size,
        min_frequency=config.least_frequency,
        special_tokens=special + inside,  # the only way to get ids in a given order
        show_progress=False,
    )
    backend.train_from_iterator(alphabet.restrict(texts), trainer)
    trained = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    rest = [token for token, _ in trained if token not in special]
    vocabulary = {token: token_id for token_id, token in enumerate(special + rest)}
    final = Backend(models.WordPiece(vocabulary, unk_token=unknown))
    final.normalizer, final.pre_tokenizer = backend.normalizer, backend.pre_tokenizer
    final.decoder = decoders.WordPiece(prefix="##")
    final.add_special_tokens(special)
    return final


def _train_words(texts: Iterable[str], config: TokenizerConfig) -> Any:  # noqa: ANN401
    """Whole words, characters unchanged, for ELMo's character network."""
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


@dataclass(frozen=True, kw_only=True)
class _Alphabet:
    """The characters of a WordPiece vocabulary."""

    inner: tuple[str, ...]
    """Characters that may occur inside a word, in order of code points."""
    excluded: str
    """Characters of the text that get no id."""

    def restrict(self, texts: Iterable[str]) -> Iterable[str]:
        """The texts with a space for each excluded character."""
        if not self.excluded:
            return texts
        blanks = str.maketrans(dict.fromkeys(self.excluded, " "))
        return (text.translate(blanks) for text in texts)


def _by_frequency(characters: Counter[str]) -> list[str]:
    """The most frequent first; ties in order of code points."""
    return sorted(characters, key=lambda character: (-characters[character], character))


def _collect_alphabet(texts: Iterable[str], normalizer: Any, *, size: int, split_chinese: bool) -> _Alphabet:  # noqa: ANN401
    """The most frequent characters of the normalized texts, in at most `size` ids.

    A character that may occur inside a word takes two ids, with and without "##".
    """
    raw_counts: Counter[str] = Counter()
    for text in texts:
        raw_counts.update(text)
    normalized = {character: set(normalizer.normalize_str(character)) - {" "} for character in raw_counts}
    counts: Counter[str] = Counter()
    for character, count in raw_counts.items():
        counts.update(dict.fromkeys(normalized[character], count))
    ranked = _by_frequency(counts)
    inner = set(_inner(ranked, split_chinese))
    kept: set[str] = set()
    for character in ranked:
        size -= 2 if character in inner else 1
        if size < 0:
            break
        kept.add(character)
    excluded = "".join(sorted(character for character, letters in normalized.items() if not letters <= kept))
    return _Alphabet(inner=tuple(sorted(inner & kept)), excluded=excluded)


def _inner(characters: list[str], split_chinese: bool) -> Iterator[str]:
    """Characters that the pre-tokenizer does not isolate."""
    alone = {ALONE, HAN} if split_chinese else {ALONE}
    classes = character_classes(code_points("".join(characters))).tolist()
    return (character for character, its_class in zip(characters, classes, strict=True) if its_class not in alone)


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
    pieces = _train_pieces(
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
    """The normalizers that strip accents and capitals."""
    from tokenizers import normalizers

    strips = config.lowercase if config.strip_accents is None else config.strip_accents
    accents = [normalizers.NFKD(), normalizers.StripAccents()] if strips else []
    return accents + ([normalizers.Lowercase()] if config.lowercase else [])


def _train_pieces(
    texts: Iterable[str],
    normalizer: Any,  # noqa: ANN401 (of tokenizers)
    *,
    vocab_size: int,
    min_frequency: int,
) -> list[tuple[str, float]]:
    """At most `vocab_size` pieces and their scores, without special tokens."""
    try:
        import sentencepiece
    except ImportError:
        raise MissingExtraError("data", "training a unigram tokenizer") from None
    counts = _normalized(_count_words(texts), normalizer)
    words = _with_frequent_characters(counts, vocab_size // 2, min_frequency)
    if not words:
        raise InputError("the text has no words", fix="give text to train on")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=(f"{word}\t{count}" for word, count in words),
        input_format="tsv",
        model_writer=model,
        model_type="unigram",
        vocab_size=vocab_size + 1,  # plus the unknown token
        hard_vocab_limit=False,
        character_coverage=1.0,
        normalization_rule_name="identity",
        add_dummy_prefix=False,  # the words have one
        remove_extra_whitespaces=False,
        max_sentence_length=1 << 16,
        bos_id=-1,
        eos_id=-1,
        num_threads=4,  # scores depend on it in their last digits, so it must be the same on every machine
        minloglevel=2,
    )
    trained = parse_sentencepiece(model.getvalue())
    return [piece for index, piece in enumerate(trained.pieces) if index != trained.unknown_id]


def _count_words(texts: Iterable[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(text.split())
        if len(counts) > _MOST_WORDS:
            counts = Counter({word: count for word, count in counts.items() if count > 1})
    return counts


def _normalized(counts: Counter[str], normalizer: Any) -> Counter[str]:  # noqa: ANN401
    """Counts of the normalized words, each with a leading ▁; long ones in parts."""
    normalized: Counter[str] = Counter()
    for word, count in counts.items():
        for part in normalizer.normalize_str(word).split():
            marked = f"▁{part}"
            for piece in [marked] if len(marked) <= _LONGEST_WORD else _PARTS.findall(marked):
                normalized[piece] += count
    return normalized


def _with_frequent_characters(counts: Counter[str], most: int, min_frequency: int) -> list[tuple[str, int]]:
    """The words that occur often enough and consist of the `most` most frequent characters, sorted."""
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    rare = set(characters).difference(_by_frequency(characters)[:most])
    return sorted((word, count) for word, count in counts.items() if count >= min_frequency and rare.isdisjoint(word))
