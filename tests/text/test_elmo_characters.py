import numpy as np

from spanlab.encoder.elmo.character_cnn import CHARACTERS, PADDING, vocabulary_characters, word_characters
from spanlab.text import Tokenizer


def test_words_become_bytes_between_marks() -> None:
    rows = word_characters(["cat", "é", ""], width=8)
    assert rows.tolist() == [
        [258, 99, 97, 116, 259, 260, 260, 260],
        [258, 0xC3, 0xA9, 259, 260, 260, 260, 260],
        [258, 259, 260, 260, 260, 260, 260, 260],
    ]
    assert rows.max() < CHARACTERS


def test_long_words_are_cut_to_the_width() -> None:
    assert word_characters(["a" * 90])[0].tolist() == [258, *[97] * 48, 259]
    assert word_characters([]).shape == (0, 50)


def test_every_id_has_a_row(trained: dict[str, Tokenizer]) -> None:
    tokenizer = trained["word elmo"]
    rows = vocabulary_characters(tokenizer.vocabulary)
    assert rows.shape == (tokenizer.vocab_size, 50)
    assert rows[tokenizer.cls_id, :4].tolist() == [258, 256, 259, PADDING]
    assert rows[tokenizer.sep_id, :4].tolist() == [258, 257, 259, PADDING]
    word = tokenizer.encode("ferry").ids[0]
    np.testing.assert_array_equal(rows[word], word_characters(["ferry"])[0])


def test_case_and_accents_of_words_are_kept(trained: dict[str, Tokenizer]) -> None:
    assert {"Tokenization", "naïve", "café", "Captain"} <= set(trained["word elmo"].vocabulary)
