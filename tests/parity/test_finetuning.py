"""Fine-tuning equals a plain transformers loop: with the same weights, order and no dropout, the same losses."""

from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

import transformers as hf

from spanlab.finetuning.config import resolve_config
from spanlab.finetuning.run import FinetuningRun
from spanlab.training.distributed import ProcessContext
from spanlab.training.loop import Training
from spanlab.training.run_folder import RunFolder
from tests.tasks.almanac_files import write_files

STEPS = 12
TRAINING = {"steps": STEPS, "lr": 1e-3, "batch_size": 8, "device": "cpu", "precision": "fp32"}


def test_the_losses_of_a_plain_loop(tiny_model: Path, tmp_path: Path) -> None:
    train, _ = write_files("classification", tmp_path / "data", train=40)
    config = resolve_config("classification", {"training": TRAINING, "data": {"length": 100}})
    ours = FinetuningRun("classification", config, model=str(tiny_model), train=str(train))
    (tmp_path / "begin").mkdir()
    ours.export(ours.spec.criterion, tmp_path / "begin")
    run = RunFolder(tmp_path / "run")
    run.begin({})
    process = ProcessContext(device=torch.device("cpu"), precision="fp32")
    loop = Training(ours.spec, config.training, run, process, seed=0)
    records = list(loop.records())

    peer = hf.AutoModelForSequenceClassification.from_pretrained(tmp_path / "begin").train()
    decayed = [p for name, p in peer.named_parameters() if p.ndim > 1 and "LayerNorm" not in name]
    plain = [p for name, p in peer.named_parameters() if p.ndim <= 1 or "LayerNorm" in name]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimiser = torch.optim.AdamW(groups, lr=1e-3)
    for step, record in enumerate(records):
        samples = [sample for batch in ours.spec.data.step(step, rank=0, world_size=1) for sample in batch.samples]
        ids = [torch.from_numpy(sample.sequences[0].ids) for sample in samples]
        padded = torch.nn.utils.rnn.pad_sequence(ids, batch_first=True)
        mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(each) for each in ids], batch_first=True)
        labels = torch.tensor([int(sample.targets["label"][0]) for sample in samples])
        loss = peer(input_ids=padded, attention_mask=mask, labels=labels).loss
        assert record.metrics["loss"] == pytest.approx(loss.item(), abs=1e-4), f"step {step}"
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        for group in optimiser.param_groups:
            group["lr"] = record.metrics["lr"]
        optimiser.step()
    assert records[-1].metrics["loss"] < records[0].metrics["loss"]
