"""`spanlab pretrain` as typed: what it prints, what it refuses and with which word, and that nothing is lost by it."""

import json
import re
import shlex
import signal
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from spanlab.cli.main import main
from spanlab.cli.progress import RunDisplay
from spanlab.encoder import TransformerEncoder, preset, save_model
from spanlab.pretraining.recipe import load_recipe
from spanlab.recipes import shipped_recipes
from spanlab.training.records import Record
from tests.pretraining.making import SMALLEST, make_tokenizer, write_text

Outcome = tuple[int, str, str]
Spanlab = Callable[..., Outcome]


@pytest.fixture
def spanlab(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Spanlab:
    """Runs the command in this process; (exit code, stdout, stderr)."""

    def run(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["spanlab", *map(str, arguments)])
        with pytest.raises(SystemExit) as ending:
            main()
        code = ending.value.code
        captured = capsys.readouterr()
        return code if isinstance(code, int) else 0, captured.out, captured.err

    return run


def refusal(outcome: Outcome) -> str:
    """The one line of a command that was refused."""
    code, out, err = outcome
    assert (code, out, err.count("\n")) == (2, "", 1), outcome
    assert err.startswith("spanlab: ")
    return err.removeprefix("spanlab: ").strip()


def test_what_is_missing_is_named(spanlab: Spanlab, small_corpus: Path, tmp_path: Path) -> None:
    out, nowhere = tmp_path / "run", tmp_path / "nowhere"
    run = ("pretrain", "spanbert", *SMALLEST, "training.steps=1")
    assert refusal(spanlab(*run, "--out", out)) == (
        "no corpus given; use --data DIR with a corpus made by spanlab prepare"
    )
    assert refusal(spanlab(*run, "--data", small_corpus)) == "no run folder given; use --out DIR"
    assert refusal(spanlab(*run, "--data", nowhere, "--out", out)).startswith(f"{nowhere}: no such folder")
    assert refusal(spanlab(*run, "--data", f"{nowhere}:3", "--out", out)).startswith(f"{nowhere}: no such folder")
    assert "no manifest.json" in refusal(spanlab(*run, "--data", tmp_path, "--out", out))
    assert refusal(spanlab(*run, "--data", f"{small_corpus}:much", "--out", out)) == (
        f"{small_corpus}:much: 'much' is not a weight; write DIR:WEIGHT, such as novels:2"
    )
    assert "each must be above 0" in refusal(spanlab(*run, "--data", f"{small_corpus}:0", "--out", out))
    assert refusal(spanlab(*run, "--data", small_corpus, "--out", out, "--init", nowhere)).startswith(f"{nowhere}: no ")
    assert not (out / "config.yaml").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("training.lr=abc",), "'training.lr' is 'abc'; it must be a number"),
        (("training.lr=-1",), "'training.lr' is -1.0; it must be above 0"),
        (("training.lr=nan",), "'training.lr' is 'nan'; it must be finite"),
        (("training.steps=0",), "'training.steps' is 0; it must be at least 1"),
        (("training.batch_size=2.5",), "'training.batch_size' is 2.5; it must be a whole number"),
        (("objectves.mlm=1",), "unknown key 'objectves' (did you mean 'objectives'?)"),
        (("objectives.mml=1",), "unknown objective 'mml' (did you mean 'mlm'?)"),
        (
            ("objectives.mlm=0", "objectives.sbo=0"),
            "every objective has weight 0, so there is nothing to",
        ),
        (("size=huge",), "'size' is 'huge'; it must be one of tiny, mini, small, base, large"),
        (("size=[1]",), "'size' is [1]; it must be one of tiny, mini, small, base, large"),
        (
            ("masking.mask_share=0.9",),
            "mask_share, random_share and keep_share are 0.9 + 0.1 + 0.1; make",
        ),
        (
            ("data.phases=[[0.9, 128]]",),
            "the shares of 'data.phases' add up to 0.9; they must",
        ),
        (("lr",), "'lr' is not an override; write key=value, such as training.lr=1e-4"),
        (("training.precision=fp16",), "training.precision is fp16, which needs a CUDA device; use precision=auto"),
        (("training.device=cuda",), "training.device is cuda, but no CUDA device is available; use device=auto"),
        (
            ("encoder.vocab_size=60",),
            "encoder.vocab_size is 60, but the corpus's tokenizer has 120 tokens",
        ),
        (
            ("encoder.max_positions=16",),
            "samples of 32 tokens are longer than the model's 16 positions; set",
        ),
        (
            ("training.batch_size=4", "training.accumulate=8"),
            "a batch of 4 samples cannot be split over 1 pro",
        ),
        (
            ("objectives.nsp=1",),
            "objectives.nsp needs sentence pairs, but data.blocks is documents; set data.blocks",
        ),
        (
            ("objectives.rtd=1",),
            "'sbo' cannot be combined with a generator and a discriminator; set",
        ),
        (
            ("masking.law=given",),
            "masking.law is 'given', but no spans are given; set data.spans to a JSON-lines file of spans",
        ),
        (
            ("training.lr_factors.objectivs=3",),
            "lr_factors has 'objectivs', which is not a prefix of any parameter name",
        ),
    ],
)
def test_settings_that_cannot_be(
    spanlab: Spanlab, small_corpus: Path, tmp_path: Path, overrides: tuple[str, ...], message: str
) -> None:
    start = ("pretrain", "spanbert", "--data", small_corpus, "--out", tmp_path / "run", *SMALLEST, "training.steps=2")
    assert message in refusal(spanlab(*start, *overrides))
    assert not (tmp_path / "run" / "config.yaml").exists()


def test_what_was_refused_leaves_the_folder_free(spanlab: Spanlab, small_corpus: Path, tmp_path: Path) -> None:
    start = ("pretrain", "spanbert", "--data", small_corpus, "--out", tmp_path / "run", *SMALLEST, "training.steps=1")
    refusal(spanlab(*start, "encoder.vocab_size=60"))
    assert (tmp_path / "run").exists()
    assert spanlab(*start)[0] == 0


def test_an_unknown_recipe(spanlab: Spanlab) -> None:
    assert refusal(spanlab("pretrain", "spanbret", "--out", "x")) == (
        "unknown recipe 'spanbret' (did you mean 'spanbert'?); shipped are albert, bert, electra, elmo, gpt, "
        "roberta, spanbert, transformer, xlnet; or give a YAML file"
    )


def test_the_line_of_a_recipe_file_is_named(spanlab: Spanlab, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("system: bert\ntraining:\n  steps: 5\n  lr: quick\n")
    assert refusal(spanlab("pretrain", path)) == f"{path}:4: 'training.lr' is 'quick'; it must be a number"


def test_the_model_must_have_the_corpus_tokenizer(spanlab: Spanlab, small_corpus: Path, tmp_path: Path) -> None:
    tokenizer = make_tokenizer(write_text(tmp_path / "text.txt"), vocab_size=100)
    save_model(tmp_path / "model", TransformerEncoder(preset("bert", "tiny", vocab_size=tokenizer.vocab_size)))
    tokenizer.save(tmp_path / "model")
    start = ("pretrain", "spanbert", "--data", small_corpus, "--out", tmp_path / "run", *SMALLEST, "training.steps=2")
    told = refusal(spanlab(*start, "--init", tmp_path / "model"))
    assert told == (
        f"{tmp_path / 'model'}: the corpus was prepared with another tokenizer than the model's; "
        f"prepare the corpus with --tokenizer {tmp_path / 'model'}, or set extend_vocabulary=true"
    )
    code, _, err = spanlab(*start, "--init", tmp_path / "model", "extend_vocabulary=true")
    assert code == 0
    assert "tokens kept" in err
    assert "new heads, which the model did not have: mlm, sbo" in err


def test_a_run_is_never_overwritten_by_accident(spanlab: Spanlab, small_corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    start = ("pretrain", "spanbert", "--data", small_corpus, "--out", out, *SMALLEST, "training.steps=3")
    assert refusal(spanlab(*start, "--resume")) == (f"{out}: no run to resume; check --out, or omit --resume")
    code, shown, err = spanlab(*start)
    assert code == 0
    assert "finished" in shown
    assert f"report: {out}/report.html" in err
    digest = (out / "metrics.jsonl").read_bytes()
    assert refusal(spanlab(*start)) == (f"{out}: the folder contains a run; use --resume or --overwrite")
    assert refusal(spanlab(*start, "--resume", "masking.ratio=0.3")) == (
        f"{out}/config.yaml: the run was started with masking.ratio=0.15, not 0.3; "
        "resume with the original settings, or start over with --overwrite"
    )
    assert (out / "metrics.jsonl").read_bytes() == digest
    code, _, err = spanlab(*start, "--resume", "training.keep=5")
    assert (code, "resumed after step 3" in err) == (0, True)
    assert (out / "metrics.jsonl").read_bytes() == digest
    assert spanlab(*start, "--overwrite", "masking.ratio=0.3")[0] == 0
    assert yaml.safe_load((out / "config.yaml").read_text())["masking"]["ratio"] == 0.3


def test_a_time_limit_says_how_to_go_on(spanlab: Spanlab, small_corpus: Path, tmp_path: Path) -> None:
    start = ("pretrain", "spanbert", "--data", small_corpus, "--out", tmp_path / "run", *SMALLEST, "training.steps=3")
    code, out, err = spanlab(*start, "training.time_limit=1e-9", "--json")
    assert (code, json.loads(out)["outcome"], json.loads(out)["steps"]) == (0, "time limit", 1)
    assert (Path(json.loads(out)["model"]) / "model.safetensors").is_file()
    code, out, err = spanlab(*start, "training.time_limit=1e-9", "--resume")
    assert (code, "time limit" in out) == (0, True)
    way_on = f"spanlab pretrain --resume --out {tmp_path / 'run'}"
    assert err.splitlines()[-1] == f"time limit reached; continue with: {way_on}"
    code, out, err = spanlab(*way_on.split()[1:], "training.time_limit=null")
    assert (code, "finished" in out) == (0, True)


def test_a_run_goes_on_by_its_folder_alone(
    spanlab: Spanlab, small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(small_corpus.parent)
    settings = (*SMALLEST, "training.steps=6", "training.eval_every=2", "masking.ratio=0.2")
    start = ("pretrain", "spanbert", "--data", f"{small_corpus.name}:2", *settings)
    assert spanlab(*start, "--out", tmp_path / "whole")[0] == 0
    code, _, err = spanlab(*start, "--out", tmp_path / "run", "training.time_limit=1e-9")
    assert code == 0
    monkeypatch.chdir(tmp_path)
    assert "the run was started with masking.ratio=0.2, not 0.3" in refusal(
        spanlab("pretrain", "masking.ratio=0.3", "--resume", "--out", "run")
    )
    assert refusal(spanlab("pretrain", "--resume", "--out", "nowhere")).startswith("nowhere: no run to resume")
    assert refusal(spanlab("pretrain", "--out", "run")).startswith("no recipe given; name one of albert, bert")
    code, _, err = spanlab("pretrain", "--resume", "--out", "run", "training.time_limit=null")
    assert (code, "resumed after step 1" in err) == (0, True)
    losses = [
        [json.loads(line)["loss"] for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "run")
    ]
    assert losses[0] == losses[1]


def test_ctrl_c_says_how_to_go_on(
    spanlab: Spanlab, small_corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(record: Record) -> None:
        if record.step == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(RunDisplay, "log", lambda self, record: interrupt(record))
    out = tmp_path / "my run"
    start = ("pretrain", "spanbert", "--data", small_corpus, "--out", out, *SMALLEST, "training.steps=9")
    code, _, err = spanlab(*start)
    assert code == 130
    assert f"continue with: spanlab pretrain --resume --out '{out}'" in err.splitlines()


def test_a_dry_run_estimates_and_leaves_nothing(spanlab: Spanlab, small_corpus: Path, tmp_path: Path) -> None:
    start = ("pretrain", "albert", "--data", small_corpus, "--out", tmp_path / "run", *SMALLEST, "training.steps=500")
    code, out, _ = spanlab(*start, "--dry-run", "--json")
    found = json.loads(out)
    assert (code, found["steps"], found["batch_size"], found["precision"]) == (0, 500, 8, "fp32")
    assert found["epochs"] == pytest.approx(500 * 8 / found["samples"], rel=0.01)
    assert found["hours"] == pytest.approx(found["seconds_per_step"] * 500 / 3600, rel=1e-5)  # printed in six digits
    assert 0 < found["tokens_per_step"] <= 8 * 32
    assert 3 < found["loss"] < 8
    assert list(tmp_path.iterdir()) == []
    code, out, _ = spanlab(*start, "--dry-run")
    assert (code, "total time" in out) == (0, True)


@pytest.mark.parametrize("recipe", shipped_recipes())
def test_a_printed_config_is_a_recipe_that_gives_the_same(spanlab: Spanlab, tmp_path: Path, recipe: str) -> None:
    overrides = ("size=small", "masking.ratio=0.2", "data.phases=[[0.5, 64], [0.5, 128]]", "encoder.dropout=0.3")
    code, out, _ = spanlab("pretrain", recipe, "--print-config", *overrides)
    path = tmp_path / "mine.yaml"
    path.write_text(out)
    assert code == 0
    assert load_recipe(str(path)) == load_recipe(recipe, overrides)


@pytest.mark.parametrize("recipe", shipped_recipes())
def test_the_command_in_a_recipes_header_is_one(spanlab: Spanlab, recipe: str) -> None:
    header = (files("spanlab.recipes") / f"{recipe}.yaml").read_text().splitlines()[1]
    found = re.fullmatch(r"#   (spanlab pretrain .*)", header)
    assert found is not None
    _, *arguments = shlex.split(found[1])
    assert arguments[1] == recipe
    code, out, _ = spanlab(*arguments, "--print-config")
    assert (code, yaml.safe_load(out)["system"]) == (0, recipe)
