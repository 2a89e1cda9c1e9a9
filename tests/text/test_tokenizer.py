import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.errors import InputError
from spanlab.text import Tokenizer, TokenizerConfig, Tokens, train_tokenizer, word_spans
from tests.text.hostile_text import HONEST, hostile_text


def shown(text: str, tokens: Tokens) -> list[str]:
    """The characters of each token, a bar before those that begin a word."""
    rows = zip(tokens.starts, tokens.ends, tokens.word_starts, strict=True)
    return [("|" if begins else "") + text[start:end] for start, end, begins in rows]


@given(text=hostile_text)
def test_offsets_lie_in_the_text_and_in_order(tokenizer: Tokenizer, text: str) -> None:
    tokens = tokenizer.encode(text)
    assert (tokens.ids.dtype, tokens.starts.dtype, tokens.ends.dtype) == (np.uint32, np.int32, np.int32)
    assert (tokens.starts >= 0).all()
    assert (tokens.starts <= tokens.ends).all()
    assert (tokens.ends <= len(text)).all()
    assert (np.diff(tokens.starts) >= 0).all()
    assert (tokens.ids < tokenizer.vocab_size).all()


@given(text=hostile_text)
def test_words_of_tokens_begin_where_words_of_the_text_begin(tokenizer: Tokenizer, text: str) -> None:
    tokens = tokenizer.encode(text)
    begins = {start for start, _ in word_spans(text)}
    inside = {place for start, end in word_spans(text) for place in range(start, end)}
    assert len(tokens) == 0 or tokens.word_starts[0]
    for number in np.flatnonzero(tokens.word_starts).tolist():
        start = int(tokens.starts[number])
        before = int(tokens.ends[number - 1]) if number else 0
        # A word start that lies inside a word of the text: only where characters before it gave no token.
        assert start in begins or start not in inside or not begins.isdisjoint(range(before, start + 1))


@given(text=hostile_text)
def test_byte_tokens_cover_every_character(trained: dict[str, Tokenizer], text: str) -> None:
    tokens = trained["bpe gpt"].encode(text)
    covered = {place for start, end in zip(tokens.starts, tokens.ends, strict=True) for place in range(start, end)}
    assert {place for place, character in enumerate(text) if not character.isspace()} <= covered


@given(texts=st.lists(hostile_text, max_size=5))
def test_a_batch_gives_what_its_texts_give_alone(tokenizer: Tokenizer, texts: list[str]) -> None:
    for together, text in zip(tokenizer.encode_batch(texts), texts, strict=True):
        alone = tokenizer.encode(text)
        for name in ("ids", "starts", "ends", "word_starts"):
            np.testing.assert_array_equal(getattr(together, name), getattr(alone, name))


def test_byte_tokens_of_one_emoji_are_one_word(trained: dict[str, Tokenizer]) -> None:
    text = "so 🙂🙃 ok"
    tokens = trained["bpe gpt"].encode(text)
    emoji = [number for number, start in enumerate(tokens.starts.tolist()) if text[start] in "🙂🙃"]
    assert len(emoji) == 8
    words = np.cumsum(tokens.word_starts)
    assert len({int(words[number]) for number in emoji}) == 1
    assert {text[start:end] for start, end in zip(tokens.starts, tokens.ends, strict=True)} >= {"🙂", "🙃"}


def test_leading_space_is_no_part_of_a_byte_token(trained: dict[str, Tokenizer]) -> None:
    text = "at  the\n\nlighthouse"
    drawn = "".join(shown(text, trained["bpe gpt"].encode(text)))
    assert drawn == "|at| |the|\n|\n|lighthouse"  # a second space and a line break are words of their own


def test_lone_space_belongs_to_the_word_after_it(trained: dict[str, Tokenizer]) -> None:
    text = "the ☃☃"
    assert shown(text, trained["bpe gpt"].encode(text))[-7:] == ["| ", *"☃☃☃☃☃☃"]


def test_lone_sentencepiece_mark_belongs_to_the_word_after_it(trained: dict[str, Tokenizer]) -> None:
    for name in ("unigram albert", "unigram xlnet"):
        tokens = trained[name].encode("the ☃ the")
        assert tokens.word_starts.sum() == 3, name
        assert len(tokens) > 3, name


def test_stripped_accents_stay_with_their_letter(trained: dict[str, Tokenizer]) -> None:
    text = "cafe\u0301 e\u0301te\u0301."
    for name in ("wordpiece uncased", "unigram albert"):
        tokens = trained[name].encode(text)
        word_ends = np.append(tokens.ends[:-1][tokens.word_starts[1:]], tokens.ends[-1])
        assert word_ends.tolist() == [5, 11, 12], name


def test_letters_that_become_a_syllable_are_covered_by_it() -> None:
    texts = ["커플이 커피를 마시고 커튼을 쳤다", "와닿지 않았지만 좋아요"] * 4
    tokenizer = train_tokenizer(texts, TokenizerConfig(kind="unigram", vocab_size=60, system="bert", lowercase=True))
    text = "ㅋㅓ플 좋ㅇㅏ ㅋ"
    tokens = tokenizer.encode(text)
    covered = {place for start, end in zip(tokens.starts, tokens.ends, strict=True) for place in range(start, end)}
    assert covered == {place for place, character in enumerate(text) if character != " "}
    assert shown(text, tokens)[0] == "|ㅋㅓ플"[: 1 + int(tokens.ends[0])]


def test_special_tokens_written_in_the_text_are_tokens(trained: dict[str, Tokenizer]) -> None:
    for name, mask in (("wordpiece cased", "[MASK]"), ("bpe roberta", "<mask>"), ("unigram xlnet", "<mask>")):
        tokenizer = trained[name]
        text = f"the {mask} left"
        tokens = tokenizer.encode(text)
        place = tokens.ids.tolist().index(tokenizer.mask_id)
        assert text[tokens.starts[place] : tokens.ends[place]] == mask


def test_roles_of_every_system(trained: dict[str, Tokenizer]) -> None:
    def roles(name: str) -> tuple[int | None, ...]:
        it = trained[name]
        return it.pad_id, it.unk_id, it.cls_id, it.sep_id, it.mask_id

    assert roles("wordpiece cased") == (0, 1, 2, 3, 4)
    assert roles("bpe roberta") == (1, 3, 0, 2, 4)
    assert roles("bpe gpt") == (None, None, None, 599, None)
    assert roles("unigram albert") == (0, 1, 2, 3, 4)
    assert roles("unigram xlnet") == (5, 0, 3, 4, 6)
    assert roles("word elmo") == (None, 2, 0, 1, None)
    assert trained["unigram xlnet"].special_ids == tuple(range(9))
    systems = [trained[name].system for name in ("wordpiece cased", "bpe roberta", "bpe gpt", "unigram albert")]
    assert systems == ["bert", "roberta", "gpt", "albert"]
    assert (trained["unigram xlnet"].system, trained["word elmo"].system) == ("xlnet", "elmo")


def test_lower_casing_is_known(trained: dict[str, Tokenizer]) -> None:
    told = {name for name, tokenizer in trained.items() if tokenizer.lower_cases}
    assert told == {"wordpiece uncased", "wordpiece lower, accents kept", "bpe lower", "unigram albert"}


def test_saved_and_loaded_is_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path)
    assert again.fingerprint == tokenizer.fingerprint
    assert again.vocabulary == tokenizer.vocabulary
    assert (again.kind, again.system, again.special_ids) == (tokenizer.kind, tokenizer.system, tokenizer.special_ids)
    np.testing.assert_array_equal(again.encode(HONEST).ids, tokenizer.encode(HONEST).ids)
    again.save(tmp_path / "twice")
    for file in (tmp_path / "twice").iterdir():
        assert file.read_bytes() == (tmp_path / file.name).read_bytes()


def test_fingerprints_tell_tokenizers_apart(trained: dict[str, Tokenizer]) -> None:
    assert len({tokenizer.fingerprint for tokenizer in trained.values()}) == len(trained)


def test_saving_replaces_another_tokenizer(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    trained["wordpiece uncased"].save(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    trained["bpe roberta"].save(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert Tokenizer.load(tmp_path).kind == "bpe"


def test_padding_and_truncation_of_a_file_are_not_ours(trained: dict[str, Tokenizer], tmp_path: Path) -> None:
    trained["wordpiece cased"].save(tmp_path)
    file = tmp_path / "tokenizer.json"
    content = json.loads(file.read_text(encoding="utf-8"))
    content["truncation"] = {"direction": "Right", "max_length": 4, "strategy": "LongestFirst", "stride": 0}
    file.write_text(json.dumps(content), encoding="utf-8")
    assert len(Tokenizer.load(tmp_path).encode(HONEST)) > 100


def test_decoding_gives_text_back(trained: dict[str, Tokenizer]) -> None:
    for name in ("bpe roberta", "bpe gpt"):
        assert trained[name].decode(trained[name].encode(HONEST).ids) == HONEST
    tokenizer = trained["wordpiece cased"]
    ids = [tokenizer.cls_id, *tokenizer.encode("the ferry left").ids, tokenizer.sep_id]
    assert tokenizer.decode(ids) == "[CLS] the ferry left [SEP]"
    assert tokenizer.decode(np.array(ids), skip_special_tokens=True) == "the ferry left"


def test_half_a_surrogate_pair_is_named(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"character 3 is half of a surrogate pair"):
        tokenizer.encode("ab \udc00")


def test_nothing_in_nothing_out(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_batch([]) == []
    assert [len(tokens) for tokens in tokenizer.encode_batch(["", "the", ""])] == [0, len(tokenizer.encode("the")), 0]
