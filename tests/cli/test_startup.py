"""What the commands import: start-up is most of the time of a short one, so what they need not load is listed here."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cli.run import run_spanlab
from tests.compat.test_folders_written_before import DATA

_NEVER = ("transformers", "ray", "pandas", "polars", "pyarrow", "sklearn", "datasets", "onnx", "fastapi")
_NO_MODEL = ("torch", "scipy", "safetensors", "huggingface_hub", "rich.progress", *_NEVER)
"""For commands that run no model."""
_MODEL = (
    *("torch._dynamo", "torch._inductor", "torch.fx.experimental.symbolic_shapes", "sympy"),
    *("torch.distributed.fsdp", "torch.distributed.tensor", "scipy", "rich.progress", *_NEVER),
)
"""For predictions: what sharding and compiling need, and statistics."""
_RUN = """
import json, sys
from spanlab.cli.main import main

commands, forbidden = json.loads(sys.argv[1])
before = set(sys.modules)  # what this Python always loads
for command in commands:
    sys.argv = ["spanlab", *command]
    try:
        main()
    except SystemExit as ending:
        assert not ending.code, (command, ending.code)
    loaded = [name for name in forbidden if name in sys.modules and name not in before]
    assert not loaded, f"spanlab {' '.join(command)} loads {loaded}"
"""


def check_imports(commands: Sequence[Sequence[str]], forbidden: Sequence[str], cwd: Path) -> None:
    """Run commands one after the other in a process of their own, in which none may load a forbidden module."""
    done = subprocess.run(
        [sys.executable, "-c", _RUN, json.dumps([commands, forbidden])],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr


def test_commands_without_a_model_load_no_torch(tmp_path: Path) -> None:
    check_imports(
        [
            ["init", "ner", "ner"],
            ["init", "classification", "classes"],
            ["data", "check", "ner", "ner/dev.jsonl", "--train", "ner/train.jsonl"],
            ["score", "classification", "--gold", "classes/dev.jsonl", "--predicted", "classes/dev.jsonl"],
            ["models"],
            ["almanac", "show", "en-science-01"],
            ["almanac", "export", "qa", "--out", "almanac"],
        ],
        (*_NO_MODEL, "tokenizers"),
        tmp_path,
    )


def test_tokenizers_and_corpora_are_made_without_torch(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("A sentence about the sea.\n\nAnother about a ship.\n" * 50, encoding="utf-8")
    train = ["tokenizer", "train", "text.txt", "--type", "wordpiece", "--vocab-size", "60", "--out", "tokenizer"]
    prepare = ["prepare", "text.txt", "--tokenizer", "tokenizer", "--out", "corpus", "--workers", "1"]
    check_imports([train, prepare], _NO_MODEL, tmp_path)


def test_a_prediction_loads_neither_sharding_nor_compiling(tmp_path: Path) -> None:
    """Each task of the model in the box, and a model of each task: heads are laid out and filled in several ways."""
    row: dict[str, object] = {
        "id": "1",
        "text": "Anna sold the flour. Delft bought it.",
        "question": "Where?",
        "context": "Anna is in Delft.",
    }
    row |= {"text_a": "A ship.", "text_b": "A boat.", "source": "A ship sails."}
    row |= {"entities": [{"start": 0, "end": 4, "label": "PER"}, {"start": 21, "end": 26, "label": "LOC"}]}
    (tmp_path / "in.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    labels = json.dumps(row).replace('"PER"', '"person"').replace('"LOC"', '"place"')
    (tmp_path / "small.jsonl").write_text(labels + "\n", encoding="utf-8")
    commands = [["predict", "reader", "--input", "in.jsonl", "--task", "all"]]
    models = sorted(folder for folder in (DATA / "tasks").iterdir() if (folder / "spanlab.json").is_file())
    single = [folder for folder in models if folder.name not in {"added", "multitask"}]
    assert len(single) > 5
    commands += [["predict", str(folder), "--input", "small.jsonl"] for folder in single]
    check_imports(commands, _MODEL, tmp_path)


def test_a_forbidden_import_is_found(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="spanlab models loads"):
        check_imports([["models"]], ("rich.table",), tmp_path)


@pytest.mark.parametrize("arguments", [("models", "--json"), ("almanac", "show", "no-such-passage")])
def test_a_quick_ending_keeps_output_and_exit_code(arguments: tuple[str, ...]) -> None:
    done = run_spanlab(*arguments)
    if done.returncode:
        assert (done.returncode, done.stdout) == (2, "")
        assert "no-such-passage" in done.stderr
    else:
        assert json.loads(done.stdout)["models"]


def test_what_is_registered_for_the_end_is_still_done(tmp_path: Path) -> None:
    """By a library that a command imports, and by its threads."""
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'spanlab.samples.terminal':\n"
        "            import atexit, threading, time\n"
        "            atexit.register(lambda: print('registered', flush=True))\n"
        "            main = threading.main_thread()\n"
        "            late = lambda: (main.join(), time.sleep(0.2), print('thread', flush=True))\n"
        "            threading.Thread(target=late).start()\n"
        "sys.meta_path.insert(0, Finder())\n",
        encoding="utf-8",
    )
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = run_spanlab("almanac", "show", "en-science-01", PYTHONPATH=path)
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == ["thread", "registered"]
