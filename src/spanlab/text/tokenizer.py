"""The tokenizer: any Hugging Face tokenizer, giving ids, character offsets and word starts in numpy arrays."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from spanlab.errors import InputError
from spanlab.text.systems import ROLES, SYSTEMS, Role, System, system_of
from spanlab.text.tokens import Tokens
from spanlab.text.words import Segmenter, word_begins

Kind = Literal["wordpiece", "bpe", "unigram", "word"]
_KINDS: Mapping[str, Kind] = {"WordPiece": "wordpiece", "BPE": "bpe", "Unigram": "unigram", "WordLevel": "word"}


class Tokenizer:
    """Text to tokens and back. Immutable; two with the same `fingerprint` give the same ids."""

    def __init__(
        self, backend: Any, *, roles: Mapping[Role, str] | None = None, segmenter: Segmenter | None = None  # noqa: ANN401
    ) -> None:
        backend.no_padding()
        backend.no_truncation()
        self._backend, self._segmenter = backend, segmenter
        vocabulary: dict[str, int] = backend.get_vocab(with_added_tokens=True)
        self.vocab_size = max(vocabulary.values()) + 1
        self.kind: Kind = _KINDS[type(backend.model).__name__]
        self.system: System = system_of(vocabulary)
        self._roles = {**SYSTEMS[self.system].roles, **(roles or {})}
        ids = {role: vocabulary.get(self._roles.get(role, "")) for role in ROLES}
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (ids[role] for role in ROLES)
        added = backend.get_added_tokens_decoder()
        special = {number for number, token in added.items() if token.special}
        special.update(vocabulary[token] for token in SYSTEMS[self.system].tokens if token in vocabulary)
        self.special_ids = tuple(sorted(special))
        normalizer = backend.normalizer
        self.lower_cases = normalizer is not None and normalizer.normalize_str("ABC").strip() == "abc"
        self.fingerprint = _fingerprint(backend)

    @classmethod
    def load(cls, path: str | Path, *, segmenter: Segmenter | None = None) -> "Tokenizer":
        """From a Hugging Face folder or one of its files."""
        import tokenizers

        path = Path(path)
        file = path / "tokenizer.json" if path.is_dir() else path
        try:
            return cls(tokenizers.Tokenizer.from_file(str(file)), segmenter=segmenter)
        except Exception as error:  # the library raises nothing more precise
            raise InputError(f"not a tokenizer: {error}", path=file) from None

    def save(self, folder: str | Path) -> None:
        """Write the Hugging Face layout into `folder`; transformers reads it and gives the same ids."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        self._backend.save(str(folder / "tokenizer.json"))
        config = {"tokenizer_class": "PreTrainedTokenizerFast"} | {f"{r}_token": t for r, t in self._roles.items()}
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False), encoding="utf-8")

    def encode(self, text: str) -> Tokens:
        """The tokens of one text."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[Tokens]:
        """The tokens of several texts, in their order."""
        encodings = self._backend.encode_batch(texts, add_special_tokens=False)
        return [self._tokens(text, encoding) for text, encoding in zip(texts, encodings, strict=True)]

    def _tokens(self, text: str, encoding: Any) -> Tokens:  # noqa: ANN401
        ids = np.array(encoding.ids, dtype=np.uint32)
        offsets = np.array(encoding.offsets, dtype=np.int32).reshape(-1, 2)
        starts, ends = offsets[:, 0], offsets[:, 1]
        if not len(ids):
            return Tokens(ids, starts, ends, np.zeros(0, bool))
        begins, _ = word_begins(text, self._segmenter)
        word = np.append(np.cumsum(begins), -1)
        word_starts = np.ones(len(ids), bool)
        word_starts[1:] = word[np.maximum(ends - 1, starts)[1:]] != word[np.maximum(ends - 1, starts)[:-1]]
        return Tokens(ids, starts, ends, word_starts)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids, special tokens shown."""
        return str(self._backend.decode([int(number) for number in ids], skip_special_tokens=False))


def _fingerprint(backend: Any) -> str:  # noqa: ANN401
    content = json.loads(backend.to_str())
    deciding = {key: content[key] for key in ("added_tokens", "normalizer", "pre_tokenizer", "model")}
    return hashlib.sha256(json.dumps(deciding, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
