"""Every script of examples/ at its default settings with the packaged MiniLM, and a floor for what each must reach.

    python -m benchmarks.examples [NAME …]        make examples

Each is started as a user starts it, and its score is read from what it prints. Some minutes on two cores; the exit code
is 1 if an example fails or stays below its floor.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import print_result

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
REPLIES = ("nine days", "30 days", "4 euros", "five years", "noon", "one hour")
"""What each answer of customer_service.py must contain, within a few words."""
LABELS = ("spam", "ham", "science", "sports", "law")
"""Those of the messages and news items of spam_and_news.py."""
TITLES = ("Lights on the Reef", "The Patient Oven", "Proof by Night")
"""The first recommendation to each reader."""
LONGEST_REPLY = 6


@dataclass(frozen=True, kw_only=True)
class Example:
    """How an example is scored, and what it must reach."""

    score: Callable[[str], float]
    """From what it prints."""
    floor: float
    unit: str


def contracts(output: str) -> float:
    """F1 on parties that are not in the training data."""
    return _number(r"\bf1 ([\d.]+)", output)


def customer_service(output: str) -> float:
    """Questions answered with the right words and few others."""
    answers = re.findall(r"^  (.*) \(\d+%\), from:", output, re.M)
    pairs = zip(answers, REPLIES, strict=True)
    return float(sum(reply in answer and len(answer.split()) <= LONGEST_REPLY for answer, reply in pairs))


def first_steps(output: str) -> float:
    """Whether the sentence about spans comes first."""
    return float(_listed(output)[0] == "A span is marked by the two words at its edges.")


def recommendation(output: str) -> float:
    """First recommendations that are on the subject."""
    firsts = [_listed(part)[0] for part in output.split("who liked")[1:]]
    return float(sum(title == best for title, best in zip(firsts, TITLES, strict=True)))


def spam_and_news(output: str) -> float:
    """Texts with the right label."""
    labels = [line.split()[0] for line in output.splitlines() if line]
    return float(sum(label == right for label, right in zip(labels, LABELS, strict=True)))


def span_objective(output: str) -> float:
    """How much the loss fell, in percent."""
    first, last = _number(r"loss: ([\d.]+)", output), _number(r"step, ([\d.]+)", output)
    return 100 * (1 - last / first)


def own_text(output: str) -> float:
    """Whether it came to the end."""
    return float("share of text masked" in output)


def _number(pattern: str, output: str) -> float:
    found = re.search(pattern, output)
    if found is None:
        raise ValueError(f"no {pattern} in the output")
    return float(found[1])


def _listed(output: str) -> list[str]:
    """The texts of a ranking with scores."""
    return re.findall(r"^ +-?\d\.\d\d  (.*)$", output, re.M)


TABLE = {
    "contracts.py": Example(score=contracts, floor=90.0, unit="F1"),
    "customer_service.py": Example(score=customer_service, floor=4.0, unit="of 6 answers"),
    "first_steps.py": Example(score=first_steps, floor=1.0, unit="of 1 sentence"),
    "own_text.sh": Example(score=own_text, floor=1.0, unit="of 1 page"),
    "recommendation.py": Example(score=recommendation, floor=3.0, unit="of 3 readers"),
    "spam_and_news.py": Example(score=spam_and_news, floor=4.0, unit="of 5 texts"),
    "span_objective.py": Example(score=span_objective, floor=20.0, unit="% less loss"),
}
"""Every script; floors leave room for what a change of seed or CPU does, and for nothing else."""


def run_example(name: str) -> dict[str, float | str]:
    """Run one in a folder of its own; what it printed is shown."""
    began = time.perf_counter()
    # A script runs `spanlab` by its name: the one beside this Python.
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHON": sys.executable,
    }
    command = [str(EXAMPLES / name)] if name.endswith(".sh") else [sys.executable, str(EXAMPLES / name)]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    example = TABLE[name]
    if done.returncode:
        print(f"{name}: exit code {done.returncode}\n{done.stderr[-2000:]}", flush=True)
    score = example.score(done.stdout) if not done.returncode else -1.0
    seconds = round(time.perf_counter() - began, 1)
    verdict = "ok" if score >= example.floor else f"BELOW ITS FLOOR of {example.floor:g}"
    print(done.stdout + f"{name}: {score:.1f} {example.unit}, {seconds:.0f} s, {verdict}\n", flush=True)
    return {"score": round(score, 2), "floor": example.floor, "seconds": seconds}


def main(names: list[str]) -> int:
    """Run them in turn; the last line is the result for scripts."""
    results = {name: run_example(name) for name in names or TABLE}
    below = [name for name, result in results.items() if float(result["score"]) < float(result["floor"])]
    print_result({"examples": results, "below": below})
    return int(bool(below))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
