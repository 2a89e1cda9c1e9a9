"""Coreference on LitBank with the real MiniLM, compared with two baselines; and a whole novel resolved.

    python -m benchmarks.coref [--almanac] [--minutes 28] [--words 100000] [--threads 1] [--out DIR] [--model DIR]
        [KEY=VALUE …]

LitBank's hundred documents in the order of their file names are 80 for training, 10 for dev and 10 for test. The small
preset is trained for as many steps as fit into the minutes, by the time a few of them take here; minutes are those of
the processor, which with one thread on a machine that does nothing else are those of the clock. The baselines are given
the gold mentions: every mention a singleton, and mentions with the same spelling clustered. With `--model` nothing is
trained. The novel is processed in a separate process, so that its peak memory can be measured.
"""

import argparse
import json
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from benchmarks.finetune import data_folder, minilm
from benchmarks.long_documents import novel
from benchmarks.measure import circumstances, print_result
from spanlab.config import merge, parse_overrides
from spanlab.finetuning.config import resolve_config
from spanlab.inference.load import load
from spanlab.inference.predictor import Predictor
from spanlab.machine import peak_memory_gb
from spanlab.metrics.coref import score_clusters
from spanlab.samples import load as load_almanac
from spanlab.samples.export import Selection, export
from spanlab.tasks.config import TaskDataConfig
from spanlab.tasks.coref.data import CorefExample
from spanlab.tasks.coref.task import Coreference
from spanlab.tasks.examples import Examples, read_labelled
from spanlab.tasks.tensor_batch import pack_samples
from spanlab.training.records import Record
from spanlab.workflows.finetune import FinetuningJob, run_job

PARTS = {"train": slice(0, 80), "dev": slice(80, 90), "test": slice(90, 100)}
PROBED = 8
EVALUATIONS = 4
Clusters = Sequence[Sequence[tuple[int, int]]]


def write_parts(folder: Path) -> dict[str, list[str]]:
    """LitBank's three parts as CoNLL-2012 files in `folder`; the names of the documents in each."""
    with tarfile.open(data_folder() / "coref/litbank_conll.tar.xz") as archive:
        members = [member for member in archive.getmembers() if member.name.endswith(".conll")]
        members.sort(key=lambda member: Path(member.name).name)
        names: dict[str, list[str]] = {}
        for part, chosen in PARTS.items():
            texts = []
            for member in members[chosen]:
                file = archive.extractfile(member)
                assert file is not None
                texts.append(file.read().decode("utf-8").rstrip("\n") + "\n")
            (folder / f"{part}.conll").write_text("".join(texts), encoding="utf-8")
            names[part] = [Path(member.name).stem for member in members[chosen]]
    (folder / "parts.json").write_text(json.dumps(names, indent=1), encoding="utf-8")
    return names


def add_almanac(folder: Path) -> Path:
    """`train.jsonl` in `folder`: LitBank's training documents, and the English training passages of the almanac."""
    export(load_almanac(), "coref", folder / "almanac", Selection(language="en", format="jsonl"), overwrite=True)
    litbank = read_labelled(Coreference, str(folder / "train.conll"), TaskDataConfig())
    lines = [json.dumps(dict(row.values), ensure_ascii=False) + "\n" for row in litbank.rows]
    both = folder / "train.jsonl"
    both.write_text("".join(lines) + (folder / "almanac/train.jsonl").read_text(encoding="utf-8"), encoding="utf-8")
    return both


def settings(changes: Mapping[str, Any], threads: int) -> dict[str, Any]:
    """The small preset with the changes of the command line."""
    return dict(merge({"coref": "small", "training": {"threads": threads}}, changes))


def seconds_per_step(job: FinetuningJob) -> float:
    """CPU time of a step."""
    run = job.prepare()
    network, data = run.network, run.spec.data
    optimiser = torch.optim.AdamW(parameter for parameter in network.parameters() if parameter.requires_grad)
    seconds = []
    for step in range(PROBED):
        began = time.process_time()
        for batch in data.step(step, rank=0, world_size=1):
            network(pack_samples(batch)).value.backward()
        optimiser.step()
        optimiser.zero_grad()
        seconds.append(time.process_time() - began)
    return sum(seconds[2:]) / len(seconds[2:])


def train(folder: Path, changes: Mapping[str, Any], minutes: float, *, almanac: bool) -> tuple[Path, dict[str, Any]]:
    """The run folder, and the outcome."""
    train_file, dev_file = (str(folder / f"{part}.conll") for part in ("train", "dev"))
    if almanac:
        train_file = str(add_almanac(folder))
    job = FinetuningJob(
        task="coref",
        model=str(minilm()),
        train=train_file,
        dev=dev_file,
        config=resolve_config("coref", changes),
        out=str(folder / "run"),
        overwrite=True,
    )
    if "steps" not in changes["training"]:
        each = seconds_per_step(job)
        steps = max(1, int(0.93 * 60 * minutes / each))  # the rest is for the evaluations
        print(f"{each:.2f} s a step: {steps} steps", flush=True)
        changes = merge(changes, {"training": {"steps": steps}})
    steps = changes["training"]["steps"]
    changes = merge({"training": {"eval_every": -(-steps // EVALUATIONS), "save_every": steps}}, changes)

    def tell(record: Record) -> None:
        if record.split == "dev" or record.step % 50 == 0:
            shown = {name: round(value, 3) for name, value in record.metrics.items() if "f1" in name or "loss" in name}
            print(f"step {record.step} {record.split} {shown}", flush=True)

    job = replace(job, config=resolve_config("coref", changes))
    began, began_by_clock = time.process_time(), time.perf_counter()
    result = run_job(job, on_record=tell)
    minutes_used, by_clock = (time.process_time() - began) / 60, (time.perf_counter() - began_by_clock) / 60
    print(f"trained in {minutes_used:.1f} minutes of the processor, {by_clock:.1f} by the clock", flush=True)
    facts = {"steps": result.steps, "training_minutes": round(minutes_used, 1), "by_the_clock": round(by_clock, 1)}
    return result.model, facts


def baselines(examples: Sequence[CorefExample]) -> dict[str, list[Clusters]]:
    """Clusters of gold mentions by rule."""
    alone: list[Clusters] = [[[span] for cluster in each.clusters for span in cluster] for each in examples]
    return {"every mention alone": alone, "same string": [_by_string(each) for each in examples]}


def _by_string(example: CorefExample) -> Clusters:
    grouped: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for start, end in (span for cluster in example.clusters for span in cluster):
        grouped[example.text[start:end].lower()].append((start, end))
    return list(grouped.values())


def predicted(predictor: Predictor, found: Examples, *, gold_mentions: bool) -> list[Clusters]:
    """A model's clusters; with the gold mentions given, or with its own."""
    rows = [dict(row.values) for row in found.rows]
    for row in rows if gold_mentions else ():
        row["mentions"] = [span for cluster in row["clusters"] for span in cluster]
    return [result.clusters for result in predictor.predict(rows)]


def compare(predictor: Predictor, found: Examples) -> dict[str, dict[str, float]]:
    """F1 of the model and the baselines, with and without singletons."""
    answers: dict[str, list[Clusters]] = {
        **baselines(found.examples),
        "model": predicted(predictor, found, gold_mentions=False),
        "model, gold mentions": predicted(predictor, found, gold_mentions=True),
    }
    gold = [example.clusters for example in found.examples]
    table = {}
    for name, clusters in answers.items():
        both = {kept: score_clusters(gold, clusters, singletons=kept) for kept in (True, False)}
        table[name] = {"conll_f1": both[True]["conll_f1"], "conll_f1_without_singletons": both[False]["conll_f1"]}
        table[name] |= {metric: both[False][metric] for metric in ("muc_f1", "b3_f1", "ceafe_f1", "lea_f1")}
        table[name]["mention_f1"] = both[True]["mention_f1"]
        shown = ", ".join(f"{metric} {value:.1f}" for metric, value in table[name].items())
        print(f"{name}: {shown}", flush=True)
    return {name: {metric: round(value, 2) for metric, value in row.items()} for name, row in table.items()}


def resolve_novel(model: str, words: int) -> dict[str, Any]:
    """Resolve a novel; returns time and memory."""
    predictor, text = load(model, device="cpu"), novel(words)
    began, began_by_clock = time.process_time(), time.perf_counter()
    (result,) = predictor.predict([text])
    seconds, by_clock = time.process_time() - began, time.perf_counter() - began_by_clock
    peak = peak_memory_gb("cpu")
    longest = max(result.clusters, key=len)
    took = f"{seconds:.0f} s of the processor, {by_clock:.0f} s by the clock"
    print(f"{len(text.split()):,} words, {result.windows} segments in {took}, peak {peak:.2f} GB")
    return {
        "words": len(text.split()),
        "segments": result.windows,
        "mentions": len(result.mentions),
        "clusters": len(result.clusters),
        "longest_cluster": len(longest),
        "seconds": round(seconds, 1),
        "by_the_clock": round(by_clock, 1),
        "peak_gb": round(peak, 2),
    }


def novel_in_own_process(model: str, options: argparse.Namespace) -> dict[str, Any]:
    """`resolve_novel` in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.coref", "--only-novel", "--model", model]
    command += ["--words", str(options.words), "--threads", str(options.threads)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    print(output.splitlines()[0], flush=True)
    found: dict[str, Any] = json.loads(output.splitlines()[-1].removeprefix("RESULT "))
    return found


def read_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--almanac", action="store_true", help="train on the almanac's English passages, too")
    parser.add_argument("--minutes", type=float, default=28.0, help="of training, evaluations on dev included")
    parser.add_argument("--words", type=int, default=100_000, help="of the novel; 0 leaves it out")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, help="a folder for the parts and the run; without it a temporary one")
    parser.add_argument("--model", help="a model that is trained already")
    parser.add_argument("--only-novel", action="store_true")
    parser.add_argument("changes", nargs="*", metavar="KEY=VALUE", help="settings of the training")
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Train, compare, and resolve the novel."""
    folder.mkdir(parents=True, exist_ok=True)
    write_parts(folder)
    facts: dict[str, Any] = {}
    model = options.model
    if model is None:
        changes = settings(parse_overrides(options.changes), options.threads)
        path, facts = train(folder, changes, options.minutes, almanac=options.almanac)
        model = str(path)
    data = TaskDataConfig()
    table = compare(load(model, device="cpu"), read_labelled(Coreference, str(folder / "test.conll"), data))
    rules = ("every mention alone", "same string")
    best = max(table[rule]["conll_f1_without_singletons"] for rule in rules)
    over = table["model"]["conll_f1_without_singletons"] - best
    result = {**facts, "test": table, "over_the_better_baseline": round(over, 2)}
    if options.words:
        result["novel"] = novel_in_own_process(model, options)
    return result


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    options = read_options()
    torch.set_num_threads(options.threads)
    about = circumstances()
    if options.only_novel:
        print_result(resolve_novel(options.model, options.words))
        return
    with tempfile.TemporaryDirectory() as temporary:
        print_result({**measure(options, options.out or Path(temporary)), **about})


if __name__ == "__main__":
    main()
