"""A pre-training run, a fine-tuning and a comparison, disturbed at random again and again.

    nice python -m benchmarks.soak --minutes 30 [--seed 0]

Each job runs once undisturbed. Then it is run over and over in new folders, and in each of them is killed (SIGKILL) at
random moments, meets a full disk (a limit on the size of its files, set while it runs), and finds its newest checkpoint
damaged (a byte flipped, a file cut short or removed). After each fault the command that resumes it is given, until it
comes to its end. What is left must be that of the undisturbed run: weights, optimiser and model to the bit, the records
of its steps, the results of the comparison. The models are tiny, so that faults are many; texts are the almanac's.

The exit code is 1 if anything differed, or if a fault was answered by anything but one line; the folder is then kept.
"""

import argparse
import hashlib
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.measure import print_result
from spanlab.errors import InputError
from spanlab.training.checkpoint import Checkpoints, read_checkpoint
from spanlab.training.status import read_status

FAULTS = ("kill", "full disk", "damaged checkpoint")
DAMAGES = ("a byte flipped", "cut short", "removed")
TIMEOUT = 600
"""Seconds after which a session counts as hanging."""
_ONE_THREAD = ("training.precision=fp32", "training.threads=1", "training.device=cpu")
_PRETRAINING = (
    *("size=tiny", "encoder.layers=1", "encoder.width=32", "encoder.heads=2", "encoder.inner_width=64"),
    *("data.length=32", "data.held_out=0.1", "training.batch_size=8", *_ONE_THREAD),
)
_OFTEN = ("training.save_every=5", "training.eval_every=20", "training.keep=4")
_VARYING = {"tokens_per_second", "memory_gb", "peak_share", "seconds"}
"""What differs between the records of two equal runs."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A command that is disturbed."""

    name: str
    command: tuple[str, ...]
    """Without `--out`."""
    resume: tuple[str, ...]
    """The command that goes on with what is there."""

    def arguments(self, out: Path) -> list[str]:
        """What is to be typed now."""
        begun = any((run / "config.yaml").is_file() for run in runs_in(out))
        return [*(self.resume if begun else self.command), "--out", str(out)]


@dataclass
class Tally:
    """What has happened so far."""

    faults: Counter[str] = field(default_factory=Counter)
    runs: Counter[str] = field(default_factory=Counter)
    sessions: int = 0
    problems: list[str] = field(default_factory=list)


def main() -> None:
    """Run until the time is over; the last line is for scripts."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no new run of a job after so many minutes")
    parser.add_argument("--seed", type=int, default=0, help="of the moments and kinds of faults")
    arguments = parser.parse_args()
    folder, draw, tally = Path(tempfile.mkdtemp(prefix="spanlab-soak-")), random.Random(arguments.seed), Tally()
    jobs = make_jobs(folder)
    whole = {job.name: undisturbed(job, folder / "whole" / job.name) for job in jobs}
    start = time.monotonic()
    for job in itertools.cycle(jobs):
        if time.monotonic() - start > 60 * arguments.minutes or tally.problems:
            break
        faults = draw.choices(FAULTS, k=draw.randint(3, 9))
        disturbed(job, folder / "disturbed", faults, whole[job.name], draw, tally)
        print(f"{(time.monotonic() - start) / 60:6.1f} min  {job.name:12s} {dict(tally.faults)}", flush=True)
    for problem in tally.problems:
        print(f"{problem}; see {folder}")
    if not tally.problems:
        shutil.rmtree(folder)
    minutes = round((time.monotonic() - start) / 60, 1)
    counts = {"faults": dict(tally.faults), "runs": dict(tally.runs), "sessions": tally.sessions}
    print_result({"minutes": minutes, **counts, "differences": len(tally.problems), "seed": arguments.seed})
    sys.exit(bool(tally.problems))


# The jobs.


def make_jobs(folder: Path) -> list[Job]:
    """Texts, a corpus, labelled files and a model to begin with; the three jobs over them."""
    from spanlab.samples import load

    text = folder / "text.txt"
    passages = "\n\n".join(passage.text for passage in load() if passage.language == "en")
    text.write_text(passages, encoding="utf-8")
    corpus, tokenizer, entities, model = (folder / name for name in ("corpus", "tokenizer", "entities", "model"))
    spanlab("tokenizer", "train", str(text), "--type", "wordpiece", "--vocab-size", "400", "--out", str(tokenizer))
    spanlab("prepare", str(text), "--tokenizer", str(tokenizer), "--out", str(corpus))
    spanlab("almanac", "export", "ner", "--language", "en", "--format", "jsonl", "--out", str(entities))
    _cut_short(entities)
    begin = ("--data", str(corpus), *_PRETRAINING)
    spanlab("pretrain", "spanbert", *begin, "training.steps=2", "--out", str(model))
    train, dev, test = (str(entities / f"{name}.jsonl") for name in ("train", "dev", "test"))
    dropout = ("backbone=null", "encoder.dropout=0.2")
    finetuning = ("head=span", "training.batch_size=4", "training.lr=0.01", *_ONE_THREAD, *_OFTEN)
    study = [word for setting in ("training.steps=40", *finetuning) for word in ("--finetuning", setting)]
    comparison: tuple[str, ...] = (
        "compare",
        "spanbert",
        "--grid",
        "objectives.sbo=0,1",
        *begin,
        *_OFTEN,
        "training.steps=60",
    )
    comparison += ("--task", f"ner={train}:{dev}:{test}", "--seeds", "2", *study)
    return [
        Job(
            name="pre-training",
            command=("pretrain", "spanbert", *begin, *dropout, *_OFTEN, "training.steps=400"),
            resume=("pretrain", "--resume"),
        ),
        Job(
            name="fine-tuning",
            command=(
                *("finetune", "ner", "--model", str(model), "--train", train, "--dev", dev),
                *(*finetuning, "training.steps=200"),
            ),
            resume=("finetune", "--resume"),
        ),
        Job(name="comparison", command=comparison, resume=comparison),
    ]


def _cut_short(entities: Path) -> None:
    """A few examples each; the test set is what training leaves."""
    lines = (entities / "train.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    dev = (entities / "dev.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    for name, chosen in (("train", lines[:24]), ("test", lines[24:40]), ("dev", dev[:8])):
        (entities / f"{name}.jsonl").write_text("".join(chosen), encoding="utf-8")


def start_session(arguments: list[str]) -> "subprocess.Popen[str]":
    """`spanlab …` on one thread, in a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, "-m", "spanlab", *arguments]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
    )


def spanlab(*arguments: str) -> None:
    """A command that nothing disturbs."""
    process = start_session(list(arguments))
    _, errors = process.communicate(timeout=TIMEOUT)
    if process.returncode:
        raise RuntimeError(f"spanlab {' '.join(arguments)}: {errors}")


def undisturbed(job: Job, out: Path) -> dict[str, str]:
    """What the job leaves when nothing disturbs it."""
    spanlab(*job.arguments(out))
    return traces(out)


# What is left.


def traces(out: Path) -> dict[str, str]:
    """The sha256 of all that must be equal, by its path: weights, models, results, and records without their times."""
    equal: dict[str, str] = {}
    for run in sorted({path.parent for path in out.rglob("config.yaml")}):
        newest = max((run / "checkpoints").glob("step-*"), default=run)
        for path in sorted([*newest.glob("weights.*"), *newest.glob("optimiser.*"), *run.glob("model/*.safetensors")]):
            equal[str(path.relative_to(out))] = hashlib.sha256(path.read_bytes()).hexdigest()
        records = json.dumps(list(_records(run / "metrics.jsonl")))
        equal[str((run / "metrics.jsonl").relative_to(out))] = hashlib.sha256(records.encode()).hexdigest()
    if (out / "results.json").is_file():
        equal["results.json"] = hashlib.sha256((out / "results.json").read_bytes()).hexdigest()
    return equal


def _records(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield {key: value for key, value in json.loads(line).items() if key not in _VARYING}


# Faults.


def disturbed(job: Job, out: Path, faults: list[str], whole: dict[str, str], draw: random.Random, tally: Tally) -> None:
    """Run the job in a new folder, with these faults unless it comes to its end before; then to its end."""
    shutil.rmtree(out, ignore_errors=True)
    for fault in faults:
        process = start_session(job.arguments(out))
        tally.sessions += 1
        wait_for_records(process, out, draw.randint(0, 40))
        time.sleep(draw.uniform(0, 0.05))
        happened = BREAKS[fault](process, out, draw)
        _, errors = process.communicate(timeout=TIMEOUT)
        if process.returncode == 0 and not traces_missing(out, whole):
            break
        if happened is None:
            happened = "kill"
        # A comparison goes on with its other runs, and says that some failed.
        expected = {-signal.SIGKILL} if fault != "full disk" else {0, 2} if job.name == "comparison" else {2}
        if process.returncode not in expected or "Traceback" in errors:
            tally.problems.append(f"{job.name} after {happened}: exit code {process.returncode}: {errors[-800:]}")
            return
        tally.faults[happened] += 1
        tally.faults["all"] += 1
    if traces_missing(out, whole):
        process = start_session(job.arguments(out))
        tally.sessions += 1
        _, errors = process.communicate(timeout=TIMEOUT)
        if process.returncode:
            tally.problems.append(
                f"{job.name} did not come to its end: exit code {process.returncode}: {errors[-800:]}"
            )
            return
    tally.runs[job.name] += 1
    found = traces(out)
    tally.problems += [f"{job.name}: {name} differs" for name in whole if found.get(name) != whole[name]]


def traces_missing(out: Path, whole: dict[str, str]) -> bool:
    """Whether the job is not at its end."""
    runs = [out / name for name in whole if name.endswith("metrics.jsonl")]
    at_end = all(path.is_file() and read_status(path.with_name("status.json")).finished for path in runs)
    failed = any((out / "failed").glob("*"))
    return not at_end or failed or ("results.json" in whole and not (out / "results.json").is_file())


def runs_in(out: Path) -> list[Path]:
    """The run folders of a job, while they change."""
    return [out, *sorted(out.glob("pretraining/*")), *sorted(out.glob("finetuning/*"))]


def wait_for_records(process: "subprocess.Popen[str]", out: Path, more: int) -> None:
    """Until the job has done so many steps more, or has ended."""

    def count() -> int:
        lines = 0
        for run in runs_in(out):
            with suppress(FileNotFoundError):  # a run that begins removes what was there
                lines += (run / "metrics.jsonl").read_bytes().count(b"\n")
        return lines

    before = count()
    while process.poll() is None and count() < before + more:
        time.sleep(0.01)


def kill(process: "subprocess.Popen[str]", out: Path, draw: random.Random) -> str | None:
    """SIGKILL."""
    process.kill()
    process.wait()
    return "kill"


def fill_disk(process: "subprocess.Popen[str]", out: Path, draw: random.Random) -> str | None:
    """From now on no file of the process may grow beyond a size that some of its files have."""
    import resource

    largest = max(path.stat().st_size for path in (out.parent / "whole").rglob("*.safetensors"))
    if process.poll() is None:
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (int(largest * draw.uniform(0, 0.9)), largest * 100))
    return "full disk"


def damage_checkpoint(process: "subprocess.Popen[str]", out: Path, draw: random.Random) -> str | None:
    """Kill the process, then damage the newest checkpoint of an unfinished run that has an older intact one."""
    kill(process, out, draw)
    for run in sorted(runs_in(out), key=lambda _: draw.random()):
        if read_status(run / "status.json").finished:
            continue
        folder = run / "checkpoints"
        intact = [step for step in Checkpoints(folder).steps() if _is_intact(Checkpoints(folder).path(step))]
        if len(intact) < 2:
            continue
        path = draw.choice(sorted(Checkpoints(folder).path(intact[-1]).iterdir()))
        how, content = draw.choice(DAMAGES), bytearray(path.read_bytes())
        if how == "a byte flipped":
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            path.write_bytes(content)
        elif how == "cut short":
            path.write_bytes(content[: draw.randrange(len(content))])
        else:
            path.unlink()
        return f"checkpoint {how}"
    return None


def _is_intact(checkpoint: Path) -> bool:
    try:
        read_checkpoint(checkpoint)
    except InputError:
        return False
    return True


BREAKS: dict[str, Callable[["subprocess.Popen[str]", Path, random.Random], str | None]] = {
    "kill": kill,
    "full disk": fill_disk,
    "damaged checkpoint": damage_checkpoint,
}

if __name__ == "__main__":
    main()
