"""The traced half of `benchmarks.code_shape`: one path through a checkout, in a process of its own.

`python -P benchmarks/traced_paths.py setup|question|sentence PACKAGE` is run in a folder to work in, with `src` of the
checkout on PYTHONPATH, and prints what it found as one line of JSON. It uses nothing but the public names of `spanlab`
and its command line, so that it can be pointed at any checkout.

setup: a tiny model that answers questions, untraced. question: that model is loaded and answers one; the command does
the same. sentence: a text file becomes a tokenizer, a corpus and, after two steps of SpanBERT, a checkpoint.
"""

import contextlib
import inspect
import json
import runpy
import sys
import threading
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SENTENCES = ("The miller sold his flour at noon.", "The widow painted the old bridge.", "A sailor mended the nets.")
QUESTION = ("Who sold the flour?", SENTENCES[0])
SMALLEST = {
    "size": "tiny",
    "encoder.layers": 1,
    "encoder.width": 32,
    "encoder.heads": 2,
    "encoder.inner_width": 64,
    "data.length": 32,
    "data.held_out": 0.1,
    "training.steps": 2,
    "training.batch_size": 4,
    "training.precision": "fp32",
    "training.threads": 1,
    "training.device": "cpu",
}


class Passed:
    """The files and types of a package in which functions ran while it was listening."""

    def __init__(self, package: Path) -> None:
        self._package, self._module = f"{package}/", package.name
        self.files: set[str] = set()
        self.types: set[str] = set()
        self._known: set[tuple[CodeType, type | None]] = set()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to all threads."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)
        try:
            yield
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        """A function of the package, or one that `dataclass` wrote for it, is called."""
        code = frame.f_code
        ours = code.co_filename.startswith(self._package)
        if event != "call" or not (ours or code.co_filename == "<string>"):
            return
        owner = self._owner(frame)
        if (code, owner) in self._known or not code.co_flags & inspect.CO_OPTIMIZED or self._importing(frame):
            return  # the bodies of modules and classes are not optimised
        self._known.add((code, owner))
        if ours:
            self.files.add(code.co_filename.removeprefix(self._package))
        if owner is not None:
            self.types.add(f"{owner.__module__}.{owner.__qualname__}")

    def _owner(self, frame: FrameType) -> type | None:
        """The package's class of which a method is called."""
        code = frame.f_code
        if not code.co_argcount or code.co_varnames[0] != "self":
            return None
        kind = type(frame.f_locals.get("self"))
        return kind if kind.__module__.split(".")[0] == self._module else None

    def _importing(self, frame: FrameType | None) -> bool:
        """Whether a call comes from the body of a module of the package that is being imported."""
        while frame is not None:
            body = frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__"
            if body and frame.f_code.co_filename.startswith(self._package):
                return True
            frame = frame.f_back
        return False

    def told(self) -> dict[str, list[str]]:
        """Both lists, sorted."""
        return {"files": sorted(self.files), "types": sorted(self.types)}


def command(*arguments: str) -> None:
    """`spanlab ARGUMENTS`, run in this process, where it can be listened to."""
    sys.argv = ["spanlab", *arguments]
    try:
        with contextlib.redirect_stdout(StringIO()):
            runpy.run_module("spanlab", run_name="__main__")
    except SystemExit as ending:
        if ending.code:
            raise


def pretrain_from_text(work: str) -> None:
    """A text file, a tokenizer, a corpus, a checkpoint."""
    folder = Path(work)
    folder.mkdir()
    text = folder / "text.txt"
    documents = ("\n".join([f"On day {number} all was well.", *SENTENCES, ""]) for number in range(40))
    text.write_text("\n".join(documents), encoding="utf-8")
    tokenizer, corpus = str(folder / "tokenizer"), str(folder / "corpus")
    command("tokenizer", "train", str(text), "--type", "wordpiece", "--vocab-size", "100", "--out", tokenizer)
    command(
        "prepare", str(text), "--tokenizer", tokenizer, "--out", corpus, "--workers", "1", "--documents", "blank-line"
    )
    given = [f"{key}={value}" for key, value in SMALLEST.items()]
    command("pretrain", "spanbert", *given, "--data", corpus, "--out", str(folder / "run"), "--json")


def set_up() -> None:
    """A model that answers questions, in `qa`."""
    import spanlab

    pretrain_from_text("setup")
    question, context = QUESTION
    row = {"question": question, "context": context, "answers": [{"text": "The miller", "start": 0}]}
    Path("train.jsonl").write_text((json.dumps(row) + "\n") * 4, encoding="utf-8")
    training = {"steps": 2, "precision": "fp32", "device": "cpu", "threads": 1}
    spanlab.finetune("qa", model="setup/run", train="train.jsonl", out="qa", training=training)


def ask(package: Path) -> dict[str, Any]:
    """Load the model and ask it, listening all the while; ask it again, listening to the answer alone; by command."""
    import spanlab

    whole, alone, commanded = Passed(package), Passed(package), Passed(package)
    with whole.listening():
        spanlab.load("qa").predict(QUESTION)
    model = spanlab.load("qa")
    with alone.listening():
        model.predict(QUESTION)
    with commanded.listening():
        command("predict", "qa", "--input", "train.jsonl", "--json")
    told = {"question": alone, "question_with_load": whole, "question_by_command": commanded}
    return {name: passed.told() for name, passed in told.items()}


def write_checkpoint(package: Path) -> dict[str, Any]:
    """From a text file to a checkpoint, listening."""
    passed = Passed(package)
    with passed.listening():
        pretrain_from_text("sentence")
    assert list(Path("sentence/run/checkpoints").iterdir())
    return {"sentence": passed.told()}


if __name__ == "__main__":
    path, package = sys.argv[1], Path(sys.argv[2])
    if path == "setup":
        set_up()
    passed_files = {} if path == "setup" else {"question": ask, "sentence": write_checkpoint}[path](package)
    sys.stdout.write(json.dumps(passed_files) + "\n")
