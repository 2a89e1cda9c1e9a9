"""What `spanlab init` writes is trained, evaluated and predicted by the commands that it prints."""

import json
import shlex
from pathlib import Path

import pytest

from spanlab.encoder import CausalLMHead, TransformerEncoder, preset, save_model
from spanlab.finetuning.config import MULTITASK
from spanlab.samples.passage import LANGUAGES
from spanlab.tasks.table import TASKS
from spanlab.text import Tokenizer
from tests.cli.run import run_here

SHORT = ("training.steps=2", "training.batch_size=2", "training.precision=fp32", "training.threads=1")
TABLE = [(task, language) for task in (*TASKS, MULTITASK) for language in (None, *LANGUAGES)]
QUICK = [("ner", "zh"), ("classification", "ko"), ("relation", "zh"), ("generation", "ko")]


@pytest.fixture(scope="session")
def tiny_causal_model(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("causal")
    tokenizer = Tokenizer.load(tiny_model)
    config = preset("gpt2", "tiny", layers=1, width=64, heads=1, inner_width=64, vocab_size=tokenizer.vocab_size)
    save_model(folder, TransformerEncoder(config), {"clm": CausalLMHead(config)})
    tokenizer.save(folder)
    return folder


@pytest.fixture
def model(request: pytest.FixtureRequest, task: str) -> Path:
    folder = request.getfixturevalue("tiny_causal_model" if task == "generation" else "tiny_model")
    assert isinstance(folder, Path)
    return folder


def follow(task: str, language: str | None, model: Path, folder: Path) -> None:
    """Run `spanlab init`, and every command that it prints, with two steps of training."""
    chosen = () if language is None else ("--language", language)
    done = run_here("init", task, str(folder), *chosen)
    assert done.returncode == 0, done.stderr
    commands = [shlex.split(line) for line in done.stdout.splitlines() if line.startswith("  spanlab ")]
    tasks = 4 if task == MULTITASK else 1
    assert [command[1] for command in commands] == ["finetune", *["evaluate"] * tasks, *["predict"] * tasks]
    if task == "coref":
        for path in (folder / "dev.jsonl", folder / "test.jsonl"):  # all pairs of mentions take minutes
            path.write_text("".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[:3]), encoding="utf-8")
    for _, name, *words in commands:
        arguments = [str(model) if word == "MODEL" else word for word in words]
        done = run_here(name, *arguments, *(SHORT if name == "finetune" else ("--json",)))
        assert done.returncode == 0, f"{name} {shlex.join(arguments)}\n{done.stderr}"
        if name == "evaluate":
            assert json.loads(done.stdout)["count"] > 0


@pytest.mark.parametrize(("task", "language"), QUICK)
def test_the_printed_commands_run(task: str, language: str, model: Path, tmp_path: Path) -> None:
    follow(task, language, model, tmp_path / "the start")


@pytest.mark.slow
@pytest.mark.parametrize(("task", "language"), [case for case in TABLE if case not in QUICK])
def test_the_printed_commands_run_for_every_task(task: str, language: str | None, model: Path, tmp_path: Path) -> None:
    follow(task, language, model, tmp_path / "start")


def test_the_config_holds_the_command_and_json_names_all(tmp_path: Path) -> None:
    told = json.loads(run_here("init", "ner", str(tmp_path / "start"), "--json").stdout)
    config = Path(told["config"]).read_text(encoding="utf-8")
    assert config.startswith(f"# {told['commands'][0]}\n")
    assert "\nhead: span\n" in config
    assert all(Path(path).is_file() for path in told["files"])


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder, words in ((tmp_path / "file", "exists and is not a folder"), (tmp_path, "exists and is not empty")):
        done = run_here("init", "qa", str(folder))
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert "--out" not in done.stderr
