"""The tokenizer: any Hugging Face tokenizer, giving ids, character offsets and word starts as numpy arrays.

What enters is text; what leaves is `Tokens`, always without special tokens: they are added to blocks and windows later.
Encoding goes through `encoding_cache` where the tokenizer allows it, else through the batch encoding of `tokenizers`,
with the same result.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from spanlab.atomic_io import write_files
from spanlab.errors import InputError
from spanlab.models import folder_of
from spanlab.strict_parsing import parse_json
from spanlab.text.alignment import align
from spanlab.text.casing import check_folder_case
from spanlab.text.encoding_cache import EncodingCache
from spanlab.text.independent_chunks import chunk_rule
from spanlab.text.special_tokens import ROLES, SYSTEMS, Role, System, system_of
from spanlab.text.tokenizer_checks import typed_failures
from spanlab.text.tokenizer_files import read_settings, read_tokenizer
from spanlab.text.tokens import Tokens, TokenTable
from spanlab.text.words import Segmenter

Kind = Literal["wordpiece", "bpe", "unigram", "word"]
_KINDS: Mapping[str, Kind] = {"WordPiece": "wordpiece", "BPE": "bpe", "Unigram": "unigram", "WordLevel": "word"}

# All files of any tokenizer: saving must not leave a stale one beside the new.
_FILES = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.txt", "vocab.json", "merges.txt", "encoder.json", "vocab.bpe", "spiece.model"),
)


class Tokenizer:
    """Text to tokens and back. Two with the same `fingerprint` give the same ids for every text."""

    kind: Kind
    system: System
    """The family its special tokens belong to."""
    vocab_size: int
    """The highest id + 1."""
    lower_cases: bool
    special_ids: tuple[int, ...]
    segmenter: Segmenter | None
    """Groups Han characters into words; it is not saved with the tokenizer."""

    def __init__(
        self,
        backend: Any,  # noqa: ANN401 (tokenizers.Tokenizer)
        *,
        roles: Mapping[Role, str] | None = None,
        segmenter: Segmenter | None = None,
    ) -> None:
        backend.no_padding()
        backend.no_truncation()
        self._backend, self.segmenter = backend, segmenter
        self._description: dict[str, Any] = parse_json(backend.to_str())
        # The post-processor adds special tokens, and would trim the space tokens of byte-level BPE to nothing.
        backend.post_processor = None
        vocabulary: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        self.kind = _KINDS[type(backend.model).__name__]
        self.system = system_of(vocabulary)
        self.vocab_size = max(vocabulary.values()) + 1
        named = {**SYSTEMS[self.system].roles, **(roles or {})}
        self._roles = {role: token for role, token in named.items() if token in vocabulary}
        ids = {role: vocabulary[token] for role, token in self._roles.items()}
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = map(ids.get, ROLES)
        added = {token["id"] for token in self._description["added_tokens"] if token["special"]}
        self.special_ids = tuple(sorted(added | set(ids.values())))
        normalizer = backend.normalizer
        self.lower_cases = normalizer is not None and "b" in normalizer.normalize_str("B")
        # With a segmenter, where a word ends depends on the words around it: no chunk is independent.
        self._rule = chunk_rule(self._description) if segmenter is None else None
        self._cache = EncodingCache(self._encode_uncached, self._rule) if self._rule is not None else None

    @classmethod
    def load(cls, path: str | Path, *, segmenter: Segmenter | None = None) -> "Tokenizer":
        """From a Hugging Face folder, or one file: tokenizer.json, vocab.txt, vocab.json, encoder.json, spiece.model.

        A name in `spanlab models` is the tokenizer of that model. `segmenter` groups Han characters into words; without
        one each is a word.
        """
        path = (folder_of(path) if isinstance(path, str) else None) or Path(path)
        backend, roles = read_tokenizer(path)
        with typed_failures("cannot be read as a tokenizer", path):
            tokenizer = cls(backend, roles=roles, segmenter=segmenter)
        settings = read_settings(path) if path.is_dir() else {}
        check_folder_case(path, backend.get_vocab(), tokenizer.lower_cases, settings)
        return tokenizer

    def save(self, folder: str | Path) -> None:
        """Write the Hugging Face layout into `folder`, in place of any tokenizer there.

        transformers reads it through `AutoTokenizer` and gives the same ids.
        """
        folder = Path(folder)
        special = SYSTEMS[self.system]
        segments = ["token_type_ids"] if special.segments else []
        settings = {
            # The class that takes tokenizer.json as it is; BertTokenizer and its like rebuild parts of it.
            "tokenizer_class": "PreTrainedTokenizerFast",
            "do_lower_case": self.lower_cases,
            "model_input_names": ["input_ids", *segments, "attention_mask"],
            "padding_side": special.padding_side,
            **{f"{role}_token": token for role, token in self._roles.items()},
        }
        contents = {"tokenizer.json": _pretty(self._description), "tokenizer_config.json": _pretty(settings)}
        if self.kind == "wordpiece":
            contents["vocab.txt"] = "".join(f"{token}\n" for token in self.vocabulary)
        write_files(folder, contents)
        for name in _FILES:
            if name not in contents:
                (folder / name).unlink(missing_ok=True)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 (hex) of everything that determines ids: normalizer, pre-tokenizer, vocabulary, added tokens.

        Scores of pieces are rounded: `tokenizers` may read a number from a file one unit off in its last place.
        """
        parts = {key: self._description[key] for key in ("added_tokens", "normalizer", "pre_tokenizer", "model")}
        if self.kind == "unigram":
            pieces = [(piece, round(score, 6)) for piece, score in parts["model"]["vocab"]]
            parts["model"] = {**parts["model"], "vocab": pieces}
        return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    @cached_property
    def vocabulary(self) -> tuple[str, ...]:
        """The token of each id; an empty string for an unused id."""
        tokens = [""] * self.vocab_size
        for token, token_id in self._backend.get_vocab(with_added_tokens=True).items():
            tokens[token_id] = token
        return tuple(tokens)

    def encode(self, text: str) -> Tokens:
        """The tokens of one text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of several texts, in their order. Texts of some thousand characters in all make a good batch."""
        return self.encode_table(texts).split()

    def encode_table(self, texts: Sequence[str]) -> TokenTable:
        """The tokens of several texts, concatenated."""
        _check_surrogates(texts)
        unsafe = self._rule.unsafe if self._rule is not None else None
        if self._cache is None or not texts or (unsafe is not None and any(map(unsafe.search, texts))):
            return self._encode_uncached(texts)
        return self._cache.encode(texts)

    def _encode_uncached(self, texts: Sequence[str]) -> TokenTable:
        with typed_failures("the tokenizer fails on a text"):
            encodings = self._backend.encode_batch(texts, add_special_tokens=False)
        return align(texts, encodings, self.segmenter)

    def decode(self, ids: Iterable[int], *, skip_special_tokens: bool = False) -> str:
        """The text of ids, special tokens shown unless skipped."""
        with typed_failures("the tokenizer fails on ids"):
            return str(self._backend.decode(list(map(int, ids)), skip_special_tokens=skip_special_tokens))


def _pretty(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, indent=2, ensure_ascii=False) + "\n"


def _check_surrogates(texts: Sequence[str]) -> None:
    """Raise at half a surrogate pair, on which `tokenizers` would fail without saying where."""
    for index, text in enumerate(texts):
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise InputError(
                f"text {index}: character {error.start} is half of a surrogate pair",
                fix="decode the text as UTF-8 first",
            ) from None


def check_model_case(model: str | Path, tokenizer: Tokenizer, tokenizer_path: str | Path) -> None:
    """Raise where a tokenizer lower-cases for a cased model, or keeps capitals for an uncased one.

    The tokenizer files of the model decide; loading them checks that they agree among themselves.
    """
    trained_with = Tokenizer.load(model)
    if trained_with.lower_cases == tokenizer.lower_cases:
        return
    cased = "is uncased" if trained_with.lower_cases else "is cased"
    does = "lower-cases" if tokenizer.lower_cases else "keeps capitals"
    raise InputError(
        f"the model {model} {cased}, but the tokenizer {tokenizer_path} {does}",
        fix="use the tokenizer in the model's own folder",
    )
