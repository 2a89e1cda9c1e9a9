"""Put the trained tasks of the reader into one model, and write it as the folder that comes with the package.

    python -m reader_training.assemble --runs DIR [--out src/spanlab/models/reader]

Enters: the runs of `reader_training.train`. Leaves: heads and adapters of all tasks in compact form, without MiniLM's
own weights, and the hashes of the files. `similarity` is MiniLM as it is: a head without weights. The card,
`README.md`, is written by `reader_training.score`.
"""

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from reader_training.train import BASE, TASKS
from spanlab.atomic_io import sha256_of, write_atomically
from spanlab.encoder.pretrained.convert import convert_folder
from spanlab.tasks.base import FittedState
from spanlab.tasks.heads import BiHead
from spanlab.tasks.model import TaskModel, load_task_model, save_task_model
from spanlab.tasks.similarity import Similarity, SimilarityConfig

NO_ANSWER = 0.0
"""A question has no answer if that scores higher than the best answer. With the threshold that is tuned on dev, where
many questions come from SQuAD 2.0, F1 on SQuAD 1.1 falls from 68.0 to 54.7."""
SUMS = "SHA256SUMS"
CARD = "README.md"
BOX = Path(__file__).parents[1] / "src/spanlab/models/reader"


def assemble(runs: Path) -> TaskModel:
    """One model with the tasks of all runs, and similarity."""
    model = load_task_model(BASE)
    for name in TASKS:
        trained = load_task_model(runs / name)
        model = replace(
            model,
            tasks={**model.tasks, name: trained.tasks[name]},
            heads={**model.heads, name: trained.heads[name]},
            adapters={**model.adapters, **trained.adapters},
        )
    asking = model.tasks["qa"]
    willing = type(asking)(asking.config, replace(asking.fitted, thresholds={"no_answer": NO_ANSWER}))
    model = replace(model, tasks={**model.tasks, "qa": willing})
    cosine = Similarity(SimilarityConfig(head="bi", score_range=(0.0, 1.0)), FittedState())
    return replace(model, tasks={**model.tasks, "similarity": cosine}, heads={**model.heads, "similarity": BiHead()})


def write_box(model: TaskModel, out: Path) -> None:
    """The folder of the package, and the hashes of its files but the card's."""
    with tempfile.TemporaryDirectory() as scratch:
        whole = Path(scratch) / "whole"
        save_task_model(whole, model)
        convert_folder(whole, out, base=BASE)
    files = sorted(path.name for path in out.iterdir() if path.name not in {SUMS, CARD})
    sums = "".join(f"{sha256_of(out / name)}  {name}\n" for name in files)
    write_atomically(out / SUMS, sums.encode())


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs of reader.train")
    parser.add_argument("--out", type=Path, default=BOX, help="folder to write")
    options = parser.parse_args(arguments)
    write_box(assemble(options.runs), options.out)


if __name__ == "__main__":
    main()
