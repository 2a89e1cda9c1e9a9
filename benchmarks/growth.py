"""How time and memory grow: with the model and the batch in training, with text everywhere else, and with clients.

    python -m benchmarks.growth [--quick] [--parts training,prepare,reading,serving] [--pictures docs/images]

- training: a step of masked language modelling, 4 layers of 256, batch 16 x 128, a vocabulary of 8,192 and 15 % of
  the tokens predicted, where one of these six varies; CPU time of one thread, and the memory of a fresh process;
- prepare: seconds and memory of corpus preparation, up to 1 GB of text (`--quick`: 100 MB);
- reading: coreference, answers and entities in one document of up to a million characters (`--quick`: 200,000) by the
  packaged `reader`; CPU time of one thread, and the memory that it adds to that of the loaded model;
- serving: requests per second and the median latency against the number of clients, entities by the `reader`.

Every point is a process of its own (`benchmarks.growth_points`). The exponent of a curve is fitted to all of its
points: time that grows as text to the power of 1 is linear. The texts are novels, found through SPANLAB_DATA.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.growth_picture import draw_growth
from benchmarks.growth_points import BASE
from benchmarks.measure import circumstances, print_result
from benchmarks.prepare import data_folder, measured, unpack

PARTS = ("training", "prepare", "reading", "serving")
TRAINING: Mapping[str, tuple[Sequence[float], str]] = {
    "layers": ((2, 4, 8, 16), "linear in the encoder's part; the vocabulary's stays as it is"),
    "width": ((128, 256, 512, 1024), "weights of a layer grow with its square, those of the vocabulary with it"),
    "length": ((64, 128, 256, 512, 1024), "every token attends to all of its sequence, which long ones notice"),
    "batch": ((4, 8, 16, 32, 64), "linear; the optimiser's step costs the same for any batch"),
    "vocabulary": ((4096, 8192, 16384, 32768, 65536), "only the output layer and the optimiser grow with it"),
    "predicted": ((0.05, 0.1, 0.2, 0.4, 0.8), "only predicted tokens have logits; the encoder's part stays"),
}
"""What varies, its values, and why its exponent is not 1."""
READING = {
    "coref": "mentions look for antecedents in a stretch of bounded size, so that long documents are linear",
    "qa": "windows of bounded size",
    "entities": "windows of bounded size",
}
CHARACTERS = (31_250, 62_500, 125_000, 250_000, 500_000, 1_000_000)
MEGABYTES = (62.5, 125, 250, 500, 1000)
CLIENTS = (1, 2, 4, 8, 16, 32, 64)


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Points of one quantity, as they go into a RESULT line and from there on the page."""

    of: str
    against: str
    unit: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    exponent: float
    why: str = ""
    picture: str = ""


def fitted(
    of: str, against: str, unit: str, points: Mapping[int, float] | Mapping[float, float], why: str = ""
) -> Curve:
    """A curve with its exponent: the slope of a line through the logarithms."""
    x, y = tuple(points), tuple(float(f"{value:.4g}") for value in points.values())
    exponent = float(np.polyfit(np.log(x), np.log(np.maximum(y, 1e-9)), 1)[0])
    return Curve(of=of, against=against, unit=unit, x=x, y=y, exponent=round(exponent, 3), why=why)


def point(kind: str, **settings: Any) -> dict[str, float]:  # noqa: ANN401 (numbers and names)
    """One point, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.growth_points", kind, json.dumps(settings)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    found: dict[str, float] = json.loads(output.splitlines()[-1])
    print(f"{kind} {settings}: {found}", flush=True)
    return found


def training(*, quick: bool) -> Iterator[Curve]:
    """Time and memory of a step against each of six settings."""
    base = point("training", **BASE)
    for name, (values, why) in TRAINING.items():
        chosen = values[:3] if quick else values
        points = {
            value: base if value == BASE[name] else point("training", **{**BASE, name: value}) for value in chosen
        }
        for field, of, unit in (("seconds", "time of a step", "s"), ("peak_mb", "memory", "MB")):
            curve = fitted(of, name, unit, {value: found[field] for value, found in points.items()}, why)
            yield replace(curve, picture=f"growth_training_{field}.svg")
        rates = {value: found["tokens_per_second"] for value, found in points.items()}
        yield fitted("tokens a second", name, "", rates)


def prepare(*, quick: bool) -> Iterator[Curve]:
    """Seconds and memory of preparation against megabytes of text."""
    data = data_folder()
    tokenizer = data / "tokenizers" / "bert-base-uncased" / "tokenizer.json"
    runs: dict[float, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        novels = sorted(unpack(data, Path(scratch) / "novels").rglob("*.txt"))
        for megabytes in (25, 50, 100) if quick else MEGABYTES:
            with tempfile.TemporaryDirectory(dir=scratch) as folder:
                text = write_text(novels, Path(folder) / "text", megabytes)
                runs[megabytes] = measured("ours", text, tokenizer, Path(folder) / "corpus", 2)
            print(f"prepare {megabytes} MB: {runs[megabytes]}", flush=True)
    seconds = {megabytes: run["seconds"] for megabytes, run in runs.items()}
    peaks = {megabytes: run["peak"] / 2**20 for megabytes, run in runs.items()}
    yield replace(
        fitted("preparation", "MB of text", "s", seconds, "linear, after the start of its workers"),
        picture="growth_text_seconds.svg",
    )
    yield replace(
        fitted("memory of preparation", "MB of text", "MB", peaks, "bounded: text passes through in portions"),
        picture="growth_text_memory.svg",
    )


def write_text(novels: Sequence[Path], folder: Path, megabytes: float) -> Path:
    """So much text in files of a novel each; copies differ in their first line, so that none is dropped."""
    folder.mkdir()
    left, copy = megabytes * 1e6, 0
    while left > 0:
        for path in novels:
            text = f"Copy {copy}.\n\n".encode() + path.read_bytes()
            (folder / f"{path.stem}-{copy}.txt").write_bytes(text[: int(left)].decode("utf-8", "ignore").encode())
            left -= len(text)
            if left <= 0:
                break
        copy += 1
    return folder


def reading(*, quick: bool) -> Iterator[Curve]:
    """Seconds and memory of three tasks against the characters of a document."""
    for task, why in READING.items():
        sizes = (50_000, 100_000, 200_000) if quick else CHARACTERS
        points = {size: point("reading", task=task, characters=size) for size in sizes}
        seconds = {size: found["seconds"] for size, found in points.items()}
        memory = {size: found["added_mb"] for size, found in points.items()}
        yield replace(fitted(task, "characters", "s", seconds, why), picture="growth_text_seconds.svg")
        yield replace(fitted(f"memory of {task}", "characters", "MB", memory), picture="growth_text_memory.svg")


def serving(*, quick: bool) -> Iterator[Curve]:
    """Requests per second and latency against clients, of one server."""
    clients = CLIENTS[:5] if quick else CLIENTS
    found = point("serving", clients=list(clients), seconds=3 if quick else 10)
    rates = {count: found[f"per_second_{count}"] for count in clients}
    latencies = {count: found[f"p50_ms_{count}"] for count in clients}
    yield replace(
        fitted("requests a second", "clients", "", rates, "until the cores are used; batches then help a little"),
        picture="growth_clients.svg",
    )
    yield replace(
        fitted("median latency", "clients", "ms", latencies, "who waits in the queue waits for all before"),
        picture="growth_clients.svg",
    )


def draw(curves: Sequence[Curve], folder: Path) -> None:
    """A picture for each file name, with the curves that name it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in dict.fromkeys(curve.picture for curve in curves if curve.picture):
        lines = {
            f"{curve.against if 'training' in name else curve.of}: {curve.exponent:.2f}": (curve.x, curve.y)
            for curve in curves
            if curve.picture == name
        }
        titles = {
            "growth_training_seconds.svg": "Time of a training step",
            "growth_training_peak_mb.svg": "Memory of training",
            "growth_text_seconds.svg": "Time against text",
            "growth_text_memory.svg": "Memory against text",
            "growth_clients.svg": "Clients of one server",
        }
        (folder / name).write_text(draw_growth(titles[name], lines), encoding="utf-8")


def main() -> None:
    """Measure and print; the last line is the result for scripts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller points")
    parser.add_argument("--parts", default=",".join(PARTS), help="separated by commas")
    default = Path(__file__).resolve().parents[1] / "docs" / "images"
    parser.add_argument("--pictures", type=Path, default=default, help="the folder of the pictures")
    options = parser.parse_args()
    parts = {"training": training, "prepare": prepare, "reading": reading, "serving": serving}
    curves = [curve for name in options.parts.split(",") for curve in parts[name](quick=options.quick)]
    for curve in curves:
        print(f"{curve.of} against {curve.against}: exponent {curve.exponent:.2f}", flush=True)
    draw(curves, options.pictures)
    print_result({"curves": [asdict(curve) for curve in curves], **circumstances()})


if __name__ == "__main__":
    main()
