from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers

from spanlab.corpus.prepare import tokenize
from spanlab.corpus.prepare.tokenize import encode_documents, sentences_of
from spanlab.text import Tokenizer
from tests.corpus.making import letters_tokenizer

SAMPLE = ["the cat sat. a hat? “naïve” cafés! 漢字，說明。 한국어 문장이다. x'll don't 3.14", "der Hund lief 🙂 weg."]


def byte_level() -> Tokenizer:
    backend = Backend(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    backend.train_from_iterator(SAMPLE, trainer)
    return Tokenizer(backend)


def unigram() -> Tokenizer:
    backend = Backend(models.Unigram())
    backend.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("''", '"')])
    backend.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    trainer = trainers.UnigramTrainer(vocab_size=80, special_tokens=["<unk>"], unk_token="<unk>", show_progress=False)
    backend.train_from_iterator(SAMPLE * 20, trainer)
    return Tokenizer(backend)


def across_spaces() -> Tokenizer:
    """A tokenizer whose tokens reach over spaces: nothing may be cut for it but between windows."""
    backend = Backend(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=120, show_progress=False)
    backend.train_from_iterator(SAMPLE, trainer)
    return Tokenizer(backend)


TOKENIZERS = {"wordpiece": letters_tokenizer(), "bpe": byte_level(), "unigram": unigram(), "spaceless": across_spaces()}
DOCUMENTS = st.lists(st.text("abcé .!?漢。한\n🙂'", max_size=60), max_size=6)


@pytest.mark.parametrize("tokenizer_type", TOKENIZERS)
@given(texts=DOCUMENTS)
def test_documents_get_the_tokens_the_tokenizer_gives_them(tokenizer_type: str, texts: list[str]) -> None:
    tokenizer = TOKENIZERS[tokenizer_type]
    documents = [sentences_of(text, lines="wrapped", language=None) for text in texts]
    documents = [document for document in documents if document.starts]
    encoded = encode_documents(tokenizer, documents)
    whole = [tokenizer.encode(document.text) for document in documents]
    assert encoded.ids.tolist() == [token for tokens in whole for token in tokens.ids.tolist()]
    assert encoded.word_starts.tolist() == [start for tokens in whole for start in tokens.word_starts.tolist()]
    assert len(encoded.sentence_lengths) == sum(len(document.starts) for document in documents)
    assert encoded.sentence_lengths.sum() == len(encoded.ids)


@pytest.mark.parametrize("tokenizer_type", ["wordpiece", "bpe", "unigram"])
@given(texts=DOCUMENTS, window=st.integers(2, 30))
def test_windows_change_nothing_where_text_has_spaces(tokenizer_type: str, texts: list[str], window: int) -> None:
    tokenizer = TOKENIZERS[tokenizer_type]
    documents = [sentences_of(text.replace("。", ". "), lines="wrapped", language=None) for text in texts]
    documents = [d for d in documents if d.starts and max(map(len, d.text.split(" "))) < window]
    documents = [d for d in documents if all(d.text[start - 1] == " " for start in d.starts[1:])]
    expected = encode_documents(tokenizer, documents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenize, "_WINDOW_CHARACTERS", window)
        patch.setattr(tokenize, "_BATCH_CHARACTERS", 2 * window)
        windowed = encode_documents(tokenizer, documents)
    assert windowed.ids.tolist() == expected.ids.tolist()
    assert windowed.word_starts.tolist() == expected.word_starts.tolist()
    assert windowed.sentence_lengths.tolist() == expected.sentence_lengths.tolist()


def test_sentences_get_their_own_tokens() -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    document = sentences_of("Ab cd. E! Fgh", lines="wrapped", language="en")
    encoded = encode_documents(tokenizer, [document, document])
    assert encoded.sentence_lengths.tolist() == [5, 2, 3] * 2
    chinese = sentences_of("漢字。說明。", lines="wrapped", language="zh")
    assert encode_documents(tokenizer, [chinese]).sentence_lengths.tolist() == [3, 3]


def test_a_sentence_without_tokens_has_none() -> None:
    document = sentences_of("ab.\n\u200b\ncd.", lines="sentences", language=None)
    assert encode_documents(TOKENIZERS["wordpiece"], [document]).sentence_lengths.tolist() == [3, 0, 3]


def test_a_word_longer_than_a_window_is_cut_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenize, "_WINDOW_CHARACTERS", 10)
    document = sentences_of("a" * 95 + " b", lines="wrapped", language=None)
    encoded = encode_documents(TOKENIZERS["wordpiece"], [document])
    assert encoded.sentence_lengths.tolist() == [96]
    assert np.count_nonzero(encoded.word_starts) == 4  # two cuts


@pytest.mark.parametrize("name", ["bert-base-uncased", "bert-base-cased", "gpt2-roberta-bpe", "albert-v2_spiece"])
def test_real_text_and_vocabularies(real_data: Path, name: str) -> None:
    import gzip

    with gzip.open(real_data / "wikitext2" / "test.raw.gz", "rt", encoding="utf-8") as file:
        document = sentences_of(file.read(100_000), lines="paragraphs", language="en")
    tokenizer = Tokenizer.load(real_data / "tokenizers" / name)
    encoded = encode_documents(tokenizer, [document])
    whole = tokenizer.encode(document.text)
    assert encoded.ids.tolist() == whole.ids.tolist()
    assert encoded.word_starts.tolist() == whole.word_starts.tolist()
