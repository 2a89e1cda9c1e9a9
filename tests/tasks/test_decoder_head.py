"""A decoder over any encoder: the layout, the smoothed loss, search held to plain loops, and folders."""

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from spanlab.decoding.generate import generate_targets
from spanlab.encoder import Encoder, Memory, build_encoder, elmo_preset, preset
from spanlab.errors import ConfigError, InputError
from spanlab.inference.load import load
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.fitted import windower_for
from spanlab.tasks.generation.config import DecoderConfig, GenerationConfig
from spanlab.tasks.generation.decoder_head import DecoderHead
from spanlab.tasks.generation.task import Generation
from spanlab.tasks.model import TaskModel, load_task_model, save_task_model
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.text import Tokenizer, TokenizerConfig, train_tokenizer
from spanlab.training.records import Record
from spanlab.workflows.finetune import finetune
from tests.cli.run import run_here
from tests.tasks.making import BPE, TOKENIZER, predict, read, run_head, tiny_encoder, windower
from tests.text.hostile_text import HONEST

TARGET_WORDS = train_tokenizer([HONEST.upper()], TokenizerConfig(kind="wordpiece", vocab_size=300))
START, END = TOKENIZER.cls_id, TOKENIZER.sep_id
assert START is not None
assert END is not None
ROWS: list[dict[str, Any]] = [
    {"id": "a", "source": "The ferry left the island before dawn.", "target": "a ferry left."},
    {"id": "b", "source": "At eight the café opened, and the fog lifted.", "target": ["the fog lifted.", "a café."]},
    {"id": "c", "source": "Nobody on the quay waved.", "target": "no wave."},
]


def fit(rows: list[dict[str, Any]] = ROWS, **changes: Any) -> tuple[Generation, list[Any]]:
    settings = {"head": "decoder", "max_new_tokens": 12, "decoder": DecoderConfig(layers=2, dropout=0.0), **changes}
    examples = read(Generation, rows)
    return Generation.fit(GenerationConfig(**settings), examples), examples


def spread(module: torch.nn.Module) -> None:
    """Weights of such a size that targets depend on their sources, and no token is the likeliest everywhere."""
    generator = torch.Generator().manual_seed(4)
    for name, parameter in module.named_parameters():
        if parameter.dim() == 2:
            std = 0.5 if "cross_attention" in name else 0.1
            parameter.data = std * torch.randn(parameter.shape, generator=generator)


def head_over(task: Generation, encoder: Encoder) -> DecoderHead:
    head = task.head(encoder)
    assert isinstance(head, DecoderHead)
    spread(encoder)
    spread(head)
    return head


def memory_of(encoder: Encoder, ids: list[int]) -> Memory:
    hidden = encoder(torch.tensor(ids), lengths=torch.tensor([len(ids)])).hidden
    return Memory.of(hidden, [len(ids)])


def logits_after(encoder: Encoder, head: DecoderHead, source: list[int], ids: list[int]) -> Tensor:
    """(T, V) by one whole forward pass, and nothing else."""
    features = head.decoder(torch.tensor(ids), torch.tensor([len(ids)]), memory_of(encoder, source), encoder.word_table)
    return F.linear(features, encoder.word_table)


def ids_of(text: str, tokenizer: Tokenizer = TOKENIZER) -> list[int]:
    return [int(token) for token in tokenizer.encode(text).ids]


def source_ids(row: dict[str, Any]) -> list[int]:
    return [START, *ids_of(row["source"]), END]


def test_the_layout() -> None:
    task, examples = fit()
    samples = task.encode(examples, windower(), labelled=True)
    assert [sample.example for sample in samples] == [0, 1, 1, 2]
    source, target = source_ids(ROWS[0]), ids_of(ROWS[0]["target"])
    assert samples[0].sequences[0].ids.tolist() == source
    assert samples[0].targets["read"].tolist() == [START, *target]
    assert samples[0].targets["next"].tolist() == [*target, END]
    asked = task.encode(examples, windower(), labelled=False)
    assert [sample.sequences[0].ids.tolist() for sample in asked] == list(map(source_ids, ROWS))
    assert not asked[0].targets


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_that_of_torch(smoothing: float) -> None:
    task, examples = fit(label_smoothing=smoothing)
    encoder = tiny_encoder()
    head = head_over(task, encoder)
    criterion = MultiTaskNetwork(encoder, {"generation": head}).train()
    batch = SampleBatch(task="generation", samples=tuple(task.encode(examples, windower(), labelled=True)))
    found = criterion(pack_samples(batch))
    found.value.backward()
    names = [name for name, parameter in criterion.named_parameters() if parameter.grad is not None]
    assert (
        sum("cross_attention" in name for name in names) == 16
    )  # 4 matrices, of which 2 in one, their norm: 8 a layer
    gradients = {name: criterion.get_parameter(name).grad.clone() for name in names}  # type: ignore[union-attr]
    criterion.zero_grad()
    losses, count = [], 0
    for row in ROWS:
        for target in row["target"] if isinstance(row["target"], list) else [row["target"]]:
            ids = ids_of(target)
            logits = logits_after(encoder, head, source_ids(row), [START, *ids])
            wanted = torch.tensor([*ids, END])
            losses.append(F.cross_entropy(logits, wanted, reduction="sum", label_smoothing=smoothing))
            count += len(wanted)
    total = torch.stack(losses).sum() / count
    total.backward()
    assert criterion.counts(batch) == {"generation": count}
    assert found.value.item() == pytest.approx(total.item(), rel=1e-5)
    for name in names:
        torch.testing.assert_close(gradients[name], criterion.get_parameter(name).grad, atol=1e-5, rtol=1e-3)


def test_dev_loss_is_not_smoothed() -> None:
    task, examples = fit(label_smoothing=0.2)
    encoder = tiny_encoder()
    criterion = MultiTaskNetwork(encoder, {"generation": head_over(task, encoder)})
    batch = pack_samples(
        SampleBatch(task="generation", samples=tuple(task.encode(examples, windower(), labelled=True)))
    )
    plain_task, _ = fit()
    plain = MultiTaskNetwork(encoder, {"generation": head_over(plain_task, encoder)})
    assert criterion.eval()(batch).value.item() == pytest.approx(plain.eval()(batch).value.item(), rel=1e-6)
    assert criterion.train()(batch).value.item() != pytest.approx(plain(batch).value.item(), rel=1e-3)


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_decoding_is_a_loop_of_forward_passes(use_cache: bool) -> None:
    task, examples = fit()
    encoder = tiny_encoder().eval()
    head = head_over(task, encoder).eval()
    samples = task.encode(examples, windower(), labelled=False)
    found = run_head(task, encoder, head, samples, batch_tokens=10_000)
    assert [one.ids for one in found] == [one.ids for one in run_head(task, encoder, head, samples, batch_tokens=1)]
    assert len({one.ids for one in found}) == 3
    for row, one in zip(ROWS, found, strict=True):
        ids = [START]
        for _ in range(12):
            with torch.no_grad():
                token = int(logits_after(encoder, head, source_ids(row), ids)[-1].argmax())
            if token == END:
                break
            ids.append(token)
        assert list(one.ids) == ids[1:]
        with torch.no_grad():
            memory = memory_of(encoder, source_ids(row))
        config = replace(head.decoding, stop_ids=(END,))
        (direct,) = generate_targets(
            head.decoder, memory, START, config, word_table_VE=encoder.word_table, use_cache=use_cache
        )
        assert direct.ids == one.ids
        assert direct.log_probability == pytest.approx(one.log_probability, abs=1e-4)


def test_beam_search_finds_the_likeliest_pair_of_tokens() -> None:
    """With as many beams as tokens and targets of two, the search is exhaustive; so is the loop it is held to."""
    task, examples = fit(ROWS[:1], max_new_tokens=2, beams=TOKENIZER.vocab_size, length_penalty=0.0)
    encoder = tiny_encoder().eval()
    head = head_over(task, encoder).eval()
    (found,) = run_head(task, encoder, head, task.encode(examples, windower(), labelled=False), batch_tokens=100)
    source = source_ids(ROWS[0])
    with torch.no_grad():
        first = logits_after(encoder, head, source, [START])[-1].log_softmax(-1)
        texts: list[tuple[float, tuple[int, ...]]] = [(float(first[END]), ())]
        for token in range(TOKENIZER.vocab_size):
            if token != END:
                second = logits_after(encoder, head, source, [START, token])[-1].log_softmax(-1) + first[token]
                place = int(second.argmax())
                texts.append((float(second[place]), (token,) if place == END else (token, place)))
    best, wanted = max(texts)
    assert found.ids == wanted
    assert found.log_probability == pytest.approx(best, abs=1e-4)


@pytest.mark.parametrize("beams", [2, 5])
def test_beam_search_is_the_same_without_a_cache_and_in_any_batch(beams: int) -> None:
    task, examples = fit(beams=beams, length_penalty=0.6)
    encoder = tiny_encoder().eval()
    head = head_over(task, encoder).eval()
    samples = task.encode(examples, windower(), labelled=False)
    found = run_head(task, encoder, head, samples, batch_tokens=10_000)
    for row, one in zip(ROWS, found, strict=True):
        with torch.no_grad():
            memory = memory_of(encoder, source_ids(row))
        config = replace(head.decoding, stop_ids=(END,))
        (alone,) = generate_targets(
            head.decoder, memory, START, config, word_table_VE=encoder.word_table, use_cache=False
        )
        assert alone.ids == one.ids
        assert alone.log_probability == pytest.approx(one.log_probability, abs=1e-4)


def train(task: Generation, encoder: Encoder, examples: list[Any], steps: int) -> DecoderHead:
    torch.manual_seed(5)
    head = task.head(encoder)
    assert isinstance(head, DecoderHead)
    tokenizer = BPE if encoder.config.vocab_size == BPE.vocab_size else TOKENIZER
    criterion = MultiTaskNetwork(encoder, {"generation": head}).train()
    frame = windower_for(encoder.config, tokenizer, task.config.data)
    batch = pack_samples(SampleBatch(task="generation", samples=tuple(task.encode(examples, frame, labelled=True))))
    optimiser = torch.optim.Adam(criterion.parameters(), lr=2e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        criterion(batch).value.backward()
        optimiser.step()
    return head


DRY = {"dropout": 0.0, "attention_dropout": 0.0}
ENCODERS = ["bert", "roberta", "albert", "electra", "modernbert", "gpt2", "transformer", "xlnet", "elmo"]


def encoder_of(system: str, vocab_size: int) -> Encoder:
    torch.manual_seed(3)
    if system == "elmo":
        return build_encoder(elmo_preset("tiny", vocab_size=TOKENIZER.vocab_size, dropout=0.0))
    return build_encoder(preset(system, "tiny", vocab_size=vocab_size, **DRY))


@pytest.mark.parametrize("system", ENCODERS)
def test_every_encoder_learns_saves_and_loads(system: str, tmp_path: Path) -> None:
    shares = system != "elmo"
    decoder = DecoderConfig(layers=1, heads=2, dropout=0.0, share_words=shares)
    task, examples = fit(decoder=decoder, beams=2, data=TaskDataConfig(length=64, long_text="error"))
    encoder = encoder_of(system, TOKENIZER.vocab_size)
    learns = system != "elmo"  # its LSTMs would take minutes
    head = train(task, encoder, examples, steps=60 if learns else 2)
    frame = windower_for(encoder.config, TOKENIZER, task.config.data)
    results = predict(task, encoder, head, examples, frame)
    if learns:
        assert [results[0].text, results[2].text] == ["a ferry left.", "no wave."]
        assert results[1].text in ROWS[1]["target"]
    model = TaskModel(encoder=encoder, tokenizer=TOKENIZER, tasks={"generation": task}, heads={"generation": head})
    save_task_model(tmp_path, model)
    loaded = load_task_model(tmp_path)
    again = predict(loaded.tasks["generation"], loaded.encoder, loaded.heads["generation"], examples, frame)
    for before, after in zip(results, again, strict=True):
        assert (before.text, before.ended) == (after.text, after.ended)
        assert before.log_probability == pytest.approx(after.log_probability, abs=1e-5)
    from safetensors import safe_open

    with safe_open(tmp_path / "heads.safetensors", "pt") as weights:
        assert any("embeddings.word" in name for name in weights.keys()) != shares  # noqa: SIM118


def test_a_vocabulary_of_the_targets_is_saved_with_the_model(tmp_path: Path) -> None:
    words = tmp_path / "words"
    TARGET_WORDS.save(words)
    rows = [{**row, "target": row["source"][:12].upper()} for row in ROWS]
    task, examples = fit(rows, target_tokenizer=str(words), decoder=DecoderConfig(layers=1, width=64, dropout=0.0))
    encoder = tiny_encoder()
    head = train(task, encoder, examples, steps=60)
    assert head.decoder.words().shape == (TARGET_WORDS.vocab_size, 64)
    model = TaskModel(encoder=encoder, tokenizer=TOKENIZER, tasks={"generation": task}, heads={"generation": head})
    save_task_model(tmp_path / "model", model)
    for file in words.iterdir():
        file.unlink()
    assert str(tmp_path) not in (tmp_path / "model" / "spanlab.json").read_text(encoding="utf-8")
    results = load(tmp_path / "model", precision="fp32").predict([row["source"] for row in rows])
    assert [result.text for result in results] == [row["target"].strip() for row in rows]


def test_settings_and_models_that_cannot_be_meant(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'label_smoothing' is for head=decoder, and the head is prefix; set head="):
        GenerationConfig(label_smoothing=0.1)
    with pytest.raises(ConfigError, match="'decoder' is for head=decoder"):
        GenerationConfig(decoder=DecoderConfig(layers=2))
    with pytest.raises(ConfigError, match=r"no word table that a decoder could share; set decoder\.share_words=false"):
        fit()[0].head(encoder_of("elmo", 10))
    with pytest.raises(ConfigError, match="3 heads cannot share a width of 128"):
        fit(decoder=DecoderConfig(heads=3))[0].head(tiny_encoder())
    with pytest.raises(InputError, match="nowhere"):
        fit(target_tokenizer=str(tmp_path / "nowhere"))
    task, examples = fit(max_new_tokens=2)
    with pytest.raises(InputError, match=r"a target has \d+ tokens; the limit is 2; use data.long_text=truncate"):
        task.encode(examples, windower(), labelled=True)
    with pytest.raises(InputError, match=r"a source has \d+ tokens; the limit is 6; use data.long_text=truncate"):
        task.encode(examples, windower(8), labelled=False)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("untrained")
    encoder_of("transformer", TOKENIZER.vocab_size).save_pretrained(folder)
    TOKENIZER.save(folder)
    return folder


def aligned(folder: Path, rows: list[dict[str, Any]]) -> str:
    source, target = folder / "pairs.en", folder / "pairs.de.gz"
    first = [row["target"] if isinstance(row["target"], str) else row["target"][0] for row in rows]
    source.write_text("".join(row["source"] + "\n" for row in rows), encoding="utf-8")
    target.write_bytes(gzip.compress("".join(text + "\n" for text in first).encode()))
    return f"{source},{target}"


def test_from_aligned_files_to_a_folder_and_back(untrained: Path, tmp_path: Path) -> None:
    pair = aligned(tmp_path, ROWS)
    records: list[Record] = []
    training = {"steps": 40, "lr": 2e-3, "warmup": 5, "batch_size": 4, "eval_every": 40, "precision": "fp32"}
    settings: dict[str, Any] = {"head": "decoder", "max_new_tokens": 12, "decoder": {"layers": 1, "dropout": 0.0}}
    settings |= {"choose_by": "chrf", "training": {**training, "device": "cpu"}}
    out = tmp_path / "run"
    finetune("generation", model=untrained, train=pair, dev=pair, out=out, on_record=records.append, **settings)
    best = next(dict(record.metrics) for record in records if record.split == "dev")
    assert best["chrf"] > 60
    model = load(out, precision="fp32")
    assert model.evaluate(pair).metrics == pytest.approx(best)
    card = (out / "model" / "README.md").read_text(encoding="utf-8")
    assert "pairs.en,pairs.de.gz" in card
    assert str(tmp_path) not in card
    source = str(tmp_path / "pairs.en")
    predicted = tmp_path / "predicted.jsonl"
    assert run_here("predict", str(out), "--input", source, "--output", str(predicted)).returncode == 0
    scored = run_here("score", "generation", "--gold", pair, "--predicted", str(predicted), "--json")
    assert json.loads(scored.stdout)["metrics"] == pytest.approx(best)
    assert run_here("finetune", "--resume", "--out", str(out)).returncode == 0
    aligned(tmp_path, [*ROWS, ROWS[0]])
    assert "file_fingerprints" in run_here("finetune", "--resume", "--out", str(out)).stderr


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of a model that has learnt its three targets."""
    folder = tmp_path_factory.mktemp("answers")
    task, examples = fit(beams=2, length_penalty=0.6)
    encoder = tiny_encoder()
    head = train(task, encoder, examples, steps=60)
    model = TaskModel(encoder=encoder, tokenizer=TOKENIZER, tasks={"generation": task}, heads={"generation": head})
    save_task_model(folder, model)
    return folder


def test_generate_writes_the_target(answers: Path) -> None:
    source = ROWS[0]["source"]
    (wanted,) = load(answers, precision="fp32").predict([source])
    assert wanted.text == "a ferry left."
    for options in ((), ("--no-cache",), ("--beams", "3"), ("--temperature", "0"), ("--top-k", "1")):
        done = run_here("generate", str(answers), source, *options, "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert (result["text"], result["full_text"], result["ended"]) == (wanted.text, wanted.text, "stop")
        assert result["log_probability"] == pytest.approx(wanted.log_probability, abs=1e-3)
    short = json.loads(run_here("generate", str(answers), source, "--max-new-tokens", "2", "--json").stdout)
    assert (short["ended"], len(short["token_ids"])) == ("length", 2)
    assert "'source' is empty" in run_here("generate", str(answers), " ").stderr


def test_another_beam_size_after_training(answers: Path, tiny_model: Path, tmp_path: Path) -> None:
    pair = aligned(tmp_path, ROWS[::2])
    greedy = load(answers, precision="fp32", beams=1)
    assert greedy.evaluate(pair).metrics["bleu"] == pytest.approx(100.0)
    head = greedy.model.heads["generation"]
    assert isinstance(head, DecoderHead)
    assert head.decoding.beams == 1
    done = run_here("evaluate", str(answers), "--data", pair, "--beams", "1", "--json")
    assert json.loads(done.stdout)["metrics"] == pytest.approx(greedy.evaluate(pair).metrics, abs=1e-3)
    with pytest.raises(InputError, match="no task of the model generates text; leave out beams"):
        load(tiny_model, beams=2)
