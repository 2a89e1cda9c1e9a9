import pytest
from hypothesis import settings

from spanlab.text import Tokenizer
from spanlab.text.train import TokenizerConfig, train_tokenizer
from tests.text.hostile_text import HONEST

settings.register_profile("text", deadline=None, max_examples=150)
settings.load_profile("text")

TRAINED = {
    "wordpiece cased": TokenizerConfig(kind="wordpiece", vocab_size=550),
    "wordpiece uncased": TokenizerConfig(kind="wordpiece", vocab_size=550, lowercase=True),
    "wordpiece lower, accents kept": TokenizerConfig(
        kind="wordpiece", vocab_size=550, lowercase=True, strip_accents=False
    ),
    "wordpiece, Chinese not split": TokenizerConfig(kind="wordpiece", vocab_size=750, split_chinese=False),
    "bpe roberta": TokenizerConfig(kind="bpe", vocab_size=600),
    "bpe gpt": TokenizerConfig(kind="bpe", vocab_size=600, system="gpt"),
    "bpe lower": TokenizerConfig(kind="bpe", vocab_size=600, lowercase=True),
    "unigram albert": TokenizerConfig(kind="unigram", vocab_size=290, lowercase=True),
    "unigram xlnet": TokenizerConfig(kind="unigram", vocab_size=290, system="xlnet"),
    "word elmo": TokenizerConfig(kind="word", vocab_size=230, min_frequency=1),
}


@pytest.fixture(scope="session")
def trained() -> dict[str, Tokenizer]:
    """One tokenizer of every kind, trained on text written for these tests."""
    return {name: train_tokenizer([HONEST, HONEST], config) for name, config in TRAINED.items()}


@pytest.fixture(scope="session", params=TRAINED)
def tokenizer(request: pytest.FixtureRequest, trained: dict[str, Tokenizer]) -> Tokenizer:
    """Each of the trained tokenizers in turn."""
    return trained[request.param]
