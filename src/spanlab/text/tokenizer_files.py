"""The files a tokenizer comes in, read into a `tokenizers.Tokenizer`.

What enters is a folder or one file: `tokenizer.json`; BERT's `vocab.txt`; GPT-2's `vocab.json` and `merges.txt` (also
under the names of the first release, `encoder.json` and `vocab.bpe`); SentencePiece's `spiece.model`. What leaves is
the tokenizer and the special tokens that `tokenizer_config.json` names. Whether a bare `vocab.txt` is cased is decided
by its words, not assumed: the common default of lower-casing silently ruins a cased model.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spanlab.errors import InputError
from spanlab.strict_parsing import read_json
from spanlab.text.casing import has_capitals
from spanlab.text.sentencepiece import read_sentencepiece
from spanlab.text.special_tokens import ROLES, SYSTEMS, Role, set_template, system_of
from spanlab.text.tokenizer_checks import check_character_map, check_description, check_ids, typed_failures

Settings = Mapping[str, Any]
"""The content of `tokenizer_config.json`."""


def read_tokenizer(path: Path) -> tuple[Any, dict[Role, str]]:
    """The `tokenizers.Tokenizer` at a path, and the special tokens that its settings name."""
    if not path.exists():
        raise InputError("no such file or folder", path=path)
    folder = path if path.is_dir() else path.parent
    file = _main_file(path) if path.is_dir() else path
    reader = _READERS.get(file.name) or _READERS_BY_ENDING.get(file.suffix)
    if reader is None:
        raise InputError("not a tokenizer file", path=path, fix=f"give a folder with one of {', '.join(_READERS)}")
    settings = read_settings(folder)
    with typed_failures("cannot be read as a tokenizer", file):
        backend, roles = reader(file, settings), _named_roles(folder, settings)
        check_ids(backend.get_vocab(with_added_tokens=True), file)
        return backend, roles


def _main_file(folder: Path) -> Path:
    for name in _READERS:
        if (folder / name).is_file():
            return folder / name
    raise InputError("has no tokenizer", path=folder, fix=f"use a folder with one of {', '.join(_READERS)}")


def read_settings(folder: Path) -> dict[str, Any]:
    """The content of `tokenizer_config.json`; empty if there is none."""
    return _read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = read_json(path)
    except FileNotFoundError:
        raise InputError("no such file", path=path) from None
    if not isinstance(content, dict):
        raise InputError("expected a JSON object", path=path)
    return content


def _named_roles(folder: Path, settings: Settings) -> dict[Role, str]:
    """Role to token by the folder's settings, which write a token as a string or as an object."""
    older = folder / "special_tokens_map.json"
    names = {**(_read_json(older) if older.is_file() else {}), **settings}
    roles: dict[Role, str] = {}
    for role in ROLES:
        token = names.get(f"{role}_token")
        content = token.get("content") if isinstance(token, dict) else token
        if isinstance(content, str):
            roles[role] = content
    return roles


def _read_tokenizer_json(path: Path, settings: Settings) -> Any:  # noqa: ANN401
    from tokenizers import Tokenizer

    check_description(_read_json(path), path)  # errors of JSON name the line
    return Tokenizer.from_file(str(path))


def _read_vocab_txt(path: Path, settings: Settings) -> Any:  # noqa: ANN401
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    try:
        with path.open(encoding="utf-8") as lines:
            words = [line.rstrip("\n") for line in lines]
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8 text (byte {error.start})", path=path) from None
    if "[UNK]" not in words:
        raise InputError("has no line [UNK]", path=path, fix="use a BERT vocabulary with one token per line")
    vocabulary = {word: token_id for token_id, word in enumerate(words)}
    lowercase = settings.get("do_lower_case")
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    backend.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=settings.get("tokenize_chinese_chars", True),
        strip_accents=settings.get("strip_accents"),
        lowercase=not has_capitals(words) if lowercase is None else lowercase,
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return _with_special_tokens(backend)


def _read_vocab_and_merges(path: Path, settings: Settings) -> Any:  # noqa: ANN401
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    merges_file = path.with_name("vocab.bpe" if path.name == "encoder.json" else "merges.txt")
    if not merges_file.is_file():
        raise InputError(f"{merges_file.name} is missing in its folder", path=path)
    vocabulary, merges = models.BPE.read_file(str(path), str(merges_file))
    if any(token.endswith("</w>") for token in vocabulary):  # GPT-1: words end with a mark, all in lower case
        backend = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", end_of_word_suffix="</w>"))
        backend.normalizer = normalizers.BertNormalizer(lowercase=True)
        backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        backend.decoder = decoders.BPEDecoder(suffix="</w>")
    else:
        backend = Tokenizer(models.BPE(vocabulary, merges, continuing_subword_prefix="", end_of_word_suffix=""))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=settings.get("add_prefix_space", False))
        backend.decoder = decoders.ByteLevel()
    return _with_special_tokens(backend)


def _read_spiece(path: Path, settings: Settings) -> Any:  # noqa: ANN401
    """ALBERT's and XLNet's tokenizers, as the published code uses the model file.

    A piece of digits and a comma is never chosen, as in the published code, which splits it again. User-defined pieces
    are ordinary pieces here: making them added tokens, as transformers 5 does, puts a spurious word start after every
    hyphen and full stop.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

    model = read_sentencepiece(path)
    check_character_map(model.normalization, path)
    pieces = [(text, score - 100 if _ends_number(text) else score) for text, score in model.pieces]
    albert = system_of(dict.fromkeys((text for text, _ in pieces), 0)) == "albert"
    steps: list[Any] = [normalizers.Replace("``", '"'), normalizers.Replace("''", '"')]
    if not settings.get("keep_accents", False):
        # SentencePiece composes the letters of a Hangul syllable again; its map as `tokenizers` reads it does not.
        steps += [normalizers.NFKD(), normalizers.StripAccents(), normalizers.NFC()]
    if settings.get("do_lower_case", albert and not has_capitals([text for text, _ in pieces])):
        steps.append(normalizers.Lowercase())
    if model.normalization:
        steps.append(normalizers.Precompiled(model.normalization))
    backend = Tokenizer(models.Unigram(pieces, unk_id=model.unknown_id, byte_fallback=False))
    backend.normalizer = normalizers.Sequence(steps)
    words = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), words])
    backend.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="always")
    return _with_special_tokens(backend, model.control)


def _ends_number(piece: str) -> bool:
    return len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit()


def _with_special_tokens(backend: Any, control: tuple[str, ...] = ()) -> Any:  # noqa: ANN401
    """Declare the special tokens of the vocabulary and set their template."""
    from tokenizers import AddedToken

    vocabulary = backend.get_vocab()
    system = system_of(vocabulary)
    names = dict.fromkeys((*SYSTEMS[system].tokens, *SYSTEMS[system].roles.values(), *control))
    backend.add_special_tokens(
        [AddedToken(name, special=True, normalized=False) for name in names if name in vocabulary]
    )
    set_template(backend, system)
    return backend


_Reader = Callable[[Path, Settings], Any]

# In the order in which a folder is searched.
_READERS: Mapping[str, _Reader] = {
    "tokenizer.json": _read_tokenizer_json,
    "vocab.txt": _read_vocab_txt,
    "vocab.json": _read_vocab_and_merges,
    "encoder.json": _read_vocab_and_merges,
    "spiece.model": _read_spiece,
}
_READERS_BY_ENDING: Mapping[str, _Reader] = {
    ".txt": _read_vocab_txt,
    ".json": _read_tokenizer_json,
    ".model": _read_spiece,
}
