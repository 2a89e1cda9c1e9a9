"""Targets from sources: the layout, a loss on targets alone, and decoding held to a plain loop."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from spanlab.encoder import CausalLMHead, Encoder, TransformerEncoder, preset, save_model
from spanlab.errors import ConfigError, InputError
from spanlab.inference.load import load
from spanlab.tasks.checking import check_file
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.formats.row import Row
from spanlab.tasks.generation.config import GenerationConfig
from spanlab.tasks.generation.task import Generation, GenerationResult
from spanlab.tasks.network import MultiTaskNetwork
from spanlab.tasks.sample import SampleBatch
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.tasks.windows import Windower
from spanlab.text import TokenizerConfig, train_tokenizer
from spanlab.training.records import Record
from spanlab.workflows.finetune import finetune
from tests.cli.run import run_here
from tests.tasks.making import TOKENIZER, decode_all, predict, read, run_head, tiny_encoder
from tests.text.hostile_text import HONEST

GPT = train_tokenizer([HONEST, HONEST], TokenizerConfig(kind="bpe", vocab_size=500, system="gpt"))
assert GPT.sep_id is not None
END: int = GPT.sep_id
ROWS: list[dict[str, Any]] = [
    {"id": "a", "source": "The ferry left the island before dawn.", "target": "A ferry left."},
    {"id": "b", "source": "At eight the café opened, and the fog lifted.", "target": ["The fog lifted.", "A café."]},
    {"id": "c", "source": "Nobody on the quay waved.", "target": "No wave."},
]


def frame(length: int = 128, long_text: Any = "error") -> Windower:
    return Windower(GPT, length=length, long_text=long_text, segments=0)


def gpt(seed: int = 3) -> Encoder:
    torch.manual_seed(seed)
    shape: dict[str, Any] = {"max_positions": 128, "dropout": 0.0, "attention_dropout": 0.0, "init_std": 0.15}
    return TransformerEncoder(preset("gpt2", "tiny", vocab_size=GPT.vocab_size, **shape))


def fit(rows: list[dict[str, Any]] = ROWS, **changes: Any) -> tuple[Generation, list[Any]]:
    examples = read(Generation, rows)
    return Generation.fit(GenerationConfig(**{"max_new_tokens": 12, **changes}), examples), examples


def ids_of(text: str) -> list[int]:
    return [int(token) for token in GPT.encode(text).ids]


def test_the_layout() -> None:
    task, examples = fit()
    samples = task.encode(examples, frame(), labelled=True)
    assert [sample.example for sample in samples] == [0, 1, 1, 2]
    source, target = ids_of(ROWS[0]["source"]), ids_of(ROWS[0]["target"])
    sequence = samples[0].sequences[0]
    assert sequence.ids.tolist() == [*source, END, *target]
    assert sequence.prefix == len(source) + 1
    assert samples[0].targets["positions"].tolist() == list(range(len(source), len(source) + 1 + len(target)))
    assert samples[0].targets["next"].tolist() == [*target, END]
    asked = task.encode(examples, frame(), labelled=False)
    assert [sample.example for sample in asked] == [0, 1, 2]
    assert asked[0].sequences[0].ids.tolist() == [*source, END]
    causal, _ = fit(prefix="causal")
    assert causal.encode(examples, frame(), labelled=False)[0].sequences[0].prefix == 0


def logits_after(encoder: Encoder, ids: list[int], prefix: int) -> torch.Tensor:
    """(T, V) by one whole forward pass, and nothing else."""
    prefixes = torch.tensor([prefix]) if prefix else None
    hidden = encoder(torch.tensor(ids), lengths=torch.tensor([len(ids)]), prefix_lengths=prefixes).hidden
    return F.linear(hidden, encoder.word_table)


@pytest.mark.parametrize("prefix", ["both", "causal"])
def test_the_loss_is_on_targets_alone(prefix: str) -> None:
    task, examples = fit(prefix=prefix)
    encoder = gpt()
    criterion = MultiTaskNetwork(encoder, {"generation": task.head(encoder)})
    batch = SampleBatch(task="generation", samples=tuple(task.encode(examples, frame(), labelled=True)))
    found = criterion(pack_samples(batch))
    found.value.backward()
    gradient = encoder.word_table.grad
    assert gradient is not None
    fitted, encoder.embeddings.word.weight.grad = gradient.clone(), None
    total, count = torch.zeros(()), 0
    for row in ROWS:
        for target in row["target"] if isinstance(row["target"], list) else [row["target"]]:
            prompt, wanted = [*ids_of(row["source"]), END], [*ids_of(target), END]
            logits = logits_after(encoder, [*prompt, *wanted[:-1]], len(prompt) if prefix == "both" else 0)
            for place, token in enumerate(wanted):
                total = total - logits[len(prompt) - 1 + place].log_softmax(-1)[token]
                count += 1
    assert criterion.counts(batch) == {"generation": count}
    assert found.value.item() == pytest.approx(float(total.detach()) / count, rel=1e-5)
    (total / count).backward()
    torch.testing.assert_close(encoder.word_table.grad, fitted, atol=1e-6, rtol=1e-3)


@pytest.mark.parametrize("prefix", ["both", "causal"])
def test_greedy_decoding_is_a_loop_of_forward_passes(prefix: str) -> None:
    task, examples = fit(prefix=prefix)
    encoder = gpt().eval()
    samples = task.encode(examples, frame(), labelled=False)
    found = run_head(task, encoder, task.head(encoder), samples, batch_tokens=10_000)
    alone = run_head(task, encoder, task.head(encoder), samples, batch_tokens=1)
    assert [one.ids for one in found] == [one.ids for one in alone]
    for row, one in zip(ROWS, found, strict=True):
        ids = [*ids_of(row["source"]), END]
        begin = len(ids)
        for _ in range(12):
            with torch.no_grad():
                token = int(logits_after(encoder, ids, begin if prefix == "both" else 0)[-1].argmax())
            if token == END:
                break
            ids.append(token)
        assert list(one.ids) == ids[begin:]


@pytest.mark.parametrize("prefix", ["both", "causal"])
def test_beam_search_finds_the_likeliest_pair_of_tokens(prefix: str) -> None:
    """With as many beams as tokens and targets of two, the search is exhaustive; so is the loop it is held to."""
    task, examples = fit(ROWS[:1], prefix=prefix, max_new_tokens=2, beams=GPT.vocab_size, length_penalty=0.0)
    encoder = gpt().eval()
    samples = task.encode(examples, frame(), labelled=False)
    (found,) = run_head(task, encoder, task.head(encoder), samples, batch_tokens=100)
    prompt = [*ids_of(ROWS[0]["source"]), END]
    both = len(prompt) if prefix == "both" else 0
    with torch.no_grad():
        first = logits_after(encoder, prompt, both)[-1].log_softmax(-1)
        best, texts = float(first[END]), [(float(first[END]), ())]
        for token in range(GPT.vocab_size):
            if token != END:
                second = logits_after(encoder, [*prompt, token], both)[-1].log_softmax(-1) + first[token]
                place = int(second.argmax())
                texts.append((float(second[place]), (token,) if place == END else (token, place)))
        best, wanted = max(texts)
    assert found.ids == wanted
    assert found.log_probability == pytest.approx(best, abs=1e-4)


def train_head(task: Generation, examples: list[Any], steps: int) -> tuple[Encoder, Any]:
    encoder = gpt()
    head = task.head(encoder)
    criterion = MultiTaskNetwork(encoder, {"generation": head})
    batch = SampleBatch(task="generation", samples=tuple(task.encode(examples, frame(), labelled=True)))
    optimiser = torch.optim.Adam(criterion.parameters(), lr=3e-3)
    for _ in range(steps):
        optimiser.zero_grad()
        criterion(pack_samples(batch)).value.backward()
        optimiser.step()
    return encoder, head


@pytest.mark.parametrize("beams", [1, 3])
def test_it_learns(beams: int) -> None:
    task, examples = fit(beams=beams)
    encoder, head = train_head(task, examples, steps=30)
    results = predict(task, encoder, head, examples, frame())
    assert [result.text for result in results][::2] == ["A ferry left.", "No wave."]
    assert results[1].text in ROWS[1]["target"]
    assert all(result.ended == "stop" for result in results)
    metrics = task.score(examples, results).metrics
    assert metrics["rouge1"] == metrics["rougeL"] == pytest.approx(100.0)
    assert set(metrics) == {"rouge1", "rouge2", "rougeL", "bleu", "chrf"}
    assert "<b>A ferry left.</b>" in results[0].to_html()
    assert task.mistake(examples[0], results[0]) is None


def test_what_is_too_long_is_refused_or_cut_on_request() -> None:
    task, examples = fit(max_new_tokens=4)
    with pytest.raises(InputError, match=r"a source has .*; the limit is 9; use data.long_text=truncate"):
        task.encode(examples[:1], frame(14), labelled=False)
    (cut,) = task.encode(examples[:1], frame(14, "truncate"), labelled=False)
    assert cut.truncated
    assert cut.sequences[0].ids.tolist() == [*ids_of(ROWS[0]["source"])[:9], END]
    long = [replace(examples[2], targets=("Nobody on the quay waved at the ferry.",))]
    with pytest.raises(InputError, match=r"a target has .*; the limit is 4"):
        task.encode(long, frame(), labelled=True)
    (short,) = task.encode(long, frame(128, "truncate"), labelled=True)
    assert len(short.targets["next"]) == 4
    assert END not in short.targets["next"]


def test_settings_and_models_that_cannot_be_meant() -> None:
    with pytest.raises(ConfigError, match=r"there are no windows over it; use data\.long_text=truncate or error"):
        GenerationConfig(data=TaskDataConfig(long_text="windows"))
    with pytest.raises(ConfigError, match="leaves no tokens for a source"):
        GenerationConfig(max_new_tokens=511)
    with pytest.raises(ConfigError, match="'beams' is 0"):
        GenerationConfig(beams=0)
    task, examples = fit()
    with pytest.raises(ConfigError, match="this bert encoder is bidirectional"):
        task.head(tiny_encoder(TOKENIZER))
    with pytest.raises(ConfigError, match="leave none for a source beside its target"):
        task.encode(examples, frame(12), labelled=False)


DIRTY: list[tuple[dict[str, Any], str | None]] = [
    (ROWS[0], None),
    ({"source": "A fog."}, "missing field"),
    ({"target": "A fog."}, "missing field"),
    ({"source": " ", "target": "A fog."}, "empty text"),
    ({"source": "Two fogs.", "target": []}, "empty text"),
    ({"source": "Three fogs.", "target": [""]}, "empty text"),
    ({"source": ["A", 3], "target": "A fog."}, "wrong type"),
    ({"source": "Four fogs.", "target": 3}, "wrong type"),
    ({"source": ["Five fogs.", "A river."], "target": ["Fogs.", "Rivers."]}, None),
]


def test_every_problem_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "dirty.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row, _ in DIRTY), encoding="utf-8")
    report = check_file(Generation, str(file), TaskDataConfig())
    found = {finding.line: finding.kind for finding in report.findings}
    assert found == {line: kind for line, (_, kind) in enumerate(DIRTY, 1) if kind is not None}
    example = Generation.read(Row(values=DIRTY[-1][0]), labelled=True)
    assert (example.source, example.targets) == ("Five fogs. A river.", ("Fogs.", "Rivers."))
    assert Generation.read(Row(values={"text": "A fog."}), labelled=False).source == "A fog."


def test_scitldr_as_it_comes(real_data: Path) -> None:
    lines = (real_data / "summarisation/scitldr/dev.jsonl").read_text(encoding="utf-8").splitlines()[:20]
    rows = [json.loads(line) for line in lines]
    for row, example in zip(rows, read(Generation, rows), strict=True):
        assert example.id == row["paper_id"]
        assert list(example.targets) == row["target"]
        assert all(sentence.strip() in example.source for sentence in row["source"])


@pytest.fixture(scope="module")
def gpt_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("gpt")
    encoder = gpt()
    save_model(folder, encoder, {"clm": CausalLMHead(encoder.config)})
    GPT.save(folder)
    return folder


def test_from_file_to_folder_and_back(gpt_folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    records: list[Record] = []
    training = {"steps": 25, "lr": 3e-3, "batch_size": 4, "eval_every": 25, "precision": "fp32", "device": "cpu"}
    out = tmp_path / "run"
    settings: dict[str, Any] = {"max_new_tokens": 12, "data": {"length": 128}, "training": training}
    finetune("generation", model=gpt_folder, train=file, dev=file, out=out, on_record=records.append, **settings)
    best = next(dict(record.metrics) for record in records if record.split == "dev")
    assert best["rougeL"] > 30
    model = load(out, precision="fp32")
    assert model.evaluate(str(file)).metrics == pytest.approx(best)
    (result,) = model.predict(ROWS[0]["source"])
    assert isinstance(result, GenerationResult)
    assert set(result.to_dict()) == {"id", "windows", "truncated", "text", "ended", "log_probability"}
    predicted = tmp_path / "predicted.jsonl"
    assert run_here("predict", str(out), "--input", str(file), "--output", str(predicted)).returncode == 0
    scored = run_here("score", "generation", "--gold", str(file), "--predicted", str(predicted), "--json")
    assert json.loads(scored.stdout)["metrics"] == pytest.approx(best)
    assert "pipeline_tag: text-generation" in (out / "model" / "README.md").read_text(encoding="utf-8")
    theirs = AutoModelForCausalLM.from_pretrained(out / "model").eval()
    ids = ids_of(ROWS[0]["source"])
    with torch.no_grad():
        wanted = logits_after(model.model.encoder, ids, 0)
        torch.testing.assert_close(theirs(torch.tensor([ids])).logits[0], wanted, atol=1e-4, rtol=1e-4)


def test_a_foreign_text_must_be_text() -> None:
    task, examples = fit()
    with pytest.raises(InputError, match="'text' is 3; it must be text"):
        task.read_result(Row(values={"text": 3}), 0, examples[0])
    wrong = task.mistake(examples[0], task.read_result(Row(values={"text": "Unlike"}), 0, examples[0]))
    assert wrong is not None
    assert (wrong.badness, wrong.gold) == (1.0, "A ferry left.")
    assert decode_all(task, [], [], []) == []
