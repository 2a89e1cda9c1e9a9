"""The text that a quickstart learns from: passages of the almanac, and the Python language reference or the user's own.

Of the almanac only what the tasks are trained on is read. Dev and test passages stay unseen by the tokenizer and by
pre-training, or the scores at the end would flatter.
"""

from pathlib import Path

from spanlab.corpus.manifest import Options
from spanlab.corpus.prepare.plan import Plan, plan_preparation
from spanlab.quickstart.plan import LANGUAGE
from spanlab.samples import load


def write_text(folder: Path, *, reference: bool) -> str:
    """A file for each training passage and, with `reference`, each topic of the reference; in words, what it is."""
    passages = [passage for passage in load() if passage.split == "train" and passage.language == LANGUAGE]
    for passage in passages:
        _write(folder / f"almanac-{passage.id}.txt", passage.text.replace("\n", " "))
    told = f"{len(passages)} passages of the almanac"
    if not reference:
        return f"your text and {told}"
    topics = _python_reference()
    for name, text in topics.items():
        _write(folder / f"python-{name}.txt", text)
    if not topics:
        return f"{told} alone: this Python comes without its language reference (pydoc_data)"
    return f"{told} and {len(topics)} topics of the Python language reference"


def _python_reference() -> dict[str, str]:
    """The topics that `help()` shows; some distributions of Python leave them out."""
    try:
        from pydoc_data.topics import topics
    except ImportError:
        return {}
    return dict(sorted(topics.items()))


def _write(path: Path, text: str) -> None:
    path.write_text(text.strip() + "\n", encoding="utf-8", newline="\n")


def text_files(folder: Path, own: tuple[str, ...]) -> list[str]:
    """All files to learn from, the user's own first."""
    return [*own, *map(str, sorted(folder.glob("*.txt")))]


def plan_corpus(folder: Path, own: tuple[str, ...]) -> Plan:
    """How they become documents; the layout of the user's own files is detected from these alone."""
    options = Options(documents="file", lines="wrapped")
    if own:
        # Passages are files of one line: as a document each they fit every layout.
        options = plan_preparation(own, Options(), file_format="txt").options
    return plan_preparation(text_files(folder, own), options, file_format="txt")
