"""GPT's auxiliary loss, and which token stands for a text that is read from left to right."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from spanlab.encoder import Encoder, build_encoder, preset, save_model
from spanlab.errors import ConfigError
from spanlab.inference.load import load
from spanlab.tasks.classification import Classification, ClassificationConfig
from spanlab.tasks.heads import SequenceTaskHead, pool_tokens
from spanlab.tasks.network import MultiTaskNetwork, encode_samples
from spanlab.tasks.sample import Sample, SampleBatch
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.tasks.windows import Windower
from spanlab.text import Tokenizer, TokenizerConfig, train_tokenizer
from spanlab.text.tokenizer import Kind
from spanlab.training.records import Record
from spanlab.workflows.finetune import finetune
from tests.tasks.almanac_files import write_topics
from tests.tasks.making import read, tiny_encoder
from tests.text.hostile_text import HONEST

ROWS = [
    {"text": "The ferry left the island before dawn.", "label": "sea"},
    {"text": "Fog.", "label": "land"},
    {"text": "The café opened at eight, and nobody was awake.", "label": "land"},
]


def setting(system: str, tokens: str, kind: Kind) -> tuple[Encoder, Windower]:
    tokenizer: Tokenizer = train_tokenizer(
        [HONEST, HONEST],
        TokenizerConfig(kind=kind, vocab_size=450, system=tokens),  # type: ignore[arg-type]
    )
    torch.manual_seed(0)
    shape: dict[str, Any] = {"dropout": 0.0, "attention_dropout": 0.0}
    encoder = build_encoder(preset(system, "tiny", vocab_size=tokenizer.vocab_size, **shape)).eval()
    return encoder, Windower(tokenizer, length=100, segments=encoder.config.segments)


def made(encoder: Encoder, windower: Windower, **changes: Any) -> tuple[Any, list[Sample]]:
    examples = read(Classification, ROWS)
    task = Classification.fit(ClassificationConfig(**changes), examples)
    torch.manual_seed(1)
    return task.head(encoder), task.encode(examples, windower, labelled=True)


def test_the_loss_is_the_labels_and_a_share_of_the_tokens() -> None:
    encoder, windower = setting("gpt2", "gpt", "bpe")
    head, samples = made(encoder, windower, auxiliary_lm=0.5)
    plain, _ = made(encoder, windower)
    batch = SampleBatch(task="classification", samples=tuple(samples))
    both = MultiTaskNetwork(encoder, {"classification": head})(pack_samples(batch))
    alone = MultiTaskNetwork(encoder, {"classification": plain})(pack_samples(batch))
    means = []
    for sample in samples:
        ids = torch.from_numpy(sample.sequences[0].ids)
        logits = F.linear(encoder(ids[None]).hidden[0], encoder.word_table)
        means.append(F.cross_entropy(logits[:-1], ids[1:]) if len(ids) > 1 else torch.zeros(()))
    wanted = alone.value + 0.5 * torch.stack(means).mean()
    assert both.value.item() == pytest.approx(wanted.item(), rel=1e-5)
    assert both.parts["classification"].count == 3
    # However a step is cut, a sample weighs the same.
    parts = [
        MultiTaskNetwork(encoder, {"classification": head})(
            pack_samples(SampleBatch(task="classification", samples=(sample,))), {"classification": 3}
        ).value
        for sample in samples
    ]
    assert sum(part.item() for part in parts) == pytest.approx(both.value.item(), rel=1e-5)


@torch.no_grad()
def test_what_is_said_is_the_inner_heads() -> None:
    encoder, windower = setting("gpt2", "gpt", "bpe")
    head, samples = made(encoder, windower, auxiliary_lm=0.5)
    batch = pack_samples(SampleBatch(task="classification", samples=tuple(samples)))
    encoded = encode_samples(encoder, batch)
    outputs = head.split(head(encoded), batch)
    inner = head.inner.split(head.inner(encoded), batch)
    assert [one.tolist() for one in outputs] == [one.tolist() for one in inner]


def test_it_is_for_causal_encoders() -> None:
    with pytest.raises(ConfigError, match="bert is bidirectional; use auxiliary_lm=0"):
        Classification.fit(ClassificationConfig(auxiliary_lm=0.5), read(Classification, ROWS)).head(tiny_encoder())
    with pytest.raises(ConfigError, match="'auxiliary_lm' is -1"):
        ClassificationConfig(auxiliary_lm=-1.0)


@pytest.mark.parametrize(
    ("system", "tokens", "kind"), [("gpt2", "gpt", "bpe"), ("xlnet", "xlnet", "unigram"), ("bert", "bert", "wordpiece")]
)
def test_the_token_that_stands_for_a_text(system: str, tokens: str, kind: Kind) -> None:
    """The last of GPT and of XLNet, where XLNet has its <cls>; the first of BERT."""
    encoder, windower = setting(system, tokens, kind)
    head, samples = made(encoder, windower)
    assert isinstance(head, SequenceTaskHead)
    batch = pack_samples(SampleBatch(task="classification", samples=tuple(samples)))
    encoded = encode_samples(encoder, batch)
    found = pool_tokens(encoded, last=head.last)
    ends = torch.cumsum(batch.lengths_B, 0)
    places = ends - 1 if system != "bert" else ends - batch.lengths_B
    torch.testing.assert_close(found, encoded.hidden_ND[places])
    cls_id = windower.tokenizer.cls_id
    if cls_id is not None:
        assert batch.input_ids_N[places].tolist() == [cls_id] * 3


def test_a_run_with_it_and_back(tmp_path: Path) -> None:
    encoder, windower = setting("gpt2", "gpt", "bpe")
    save_model(tmp_path / "gpt", encoder)
    windower.tokenizer.save(tmp_path / "gpt")
    train, dev = write_topics(tmp_path / "data")
    records: list[Record] = []
    training = {"steps": 40, "lr": 3e-3, "batch_size": 8, "eval_every": 40, "precision": "fp32", "device": "cpu"}
    finetune(
        "classification",
        model=tmp_path / "gpt",
        train=train,
        dev=dev,
        out=tmp_path / "run",
        on_record=records.append,
        auxiliary_lm=0.5,
        training=training,
    )
    scores = next(dict(record.metrics) for record in records if record.split == "dev")
    assert scores["accuracy"] == 100.0
    assert load(tmp_path / "run", precision="fp32").evaluate(str(dev)).metrics == scores
