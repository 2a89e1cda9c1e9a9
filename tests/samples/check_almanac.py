"""Check almanac files: `python -m tests.samples.check_almanac [FILE…]`.

Prints every problem with its line and column, then notes (often, not always, a mistake), then counts by layer. Without
files the whole shipped almanac is checked, its totals, its size and the balance of its splits too. Exit code 1 when
there is a problem.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import spanlab.samples
from spanlab.errors import InputError
from spanlab.samples import Passage, examine
from tests.samples.almanac_findings import Checked, Finding, overlap, units
from tests.samples.almanac_passage_checks import check_passage
from tests.samples.almanac_set_checks import check_set, check_totals, count_labels, count_layers, dates_and_amounts

SHIPPED = Path(spanlab.samples.__file__).parent / "passages"
# What a passage has on average, so that the whole reaches its totals.
TARGETS = {
    "entities": 10.0,
    "coreference clusters": 2.0,
    "relations": 2.5,
    "questions": 4.5,
    "unanswerable questions": 1.0,
    "similarity pairs": 1.2,
}


def read_files(paths: Sequence[Path]) -> tuple[list[Checked], list[InputError]]:
    """The faultless passages of some files, and the faults of the grammar."""
    everything: list[Checked] = []
    faults: list[InputError] = []
    for path in paths:
        source = path.read_text(encoding="utf-8")
        examination = examine(source, path)
        faults += examination.problems
        lines = tuple(source.split("\n"))
        everything += [Checked(path=path, lines=lines, passage=passage) for passage in examination.passages]
    return everything, faults


def find(everything: Sequence[Checked]) -> Iterator[Finding]:
    """Everything that can be said against some passages, one by one and together."""
    for checked in everything:
        yield from check_passage(checked)
    yield from check_set(everything)


def report(passages: Sequence[Passage]) -> str:
    """The counts by layer and label, with the average of a passage beside its target."""
    lines = []
    for layer, count in count_layers(passages).items():
        average = count / max(1, len(passages))
        aim = f"   {average:5.1f} a passage, target {TARGETS[layer]}" if layer in TARGETS else ""
        lines.append(f"  {layer:24}{count:7}{aim}{'   TOO FEW' if aim and average < TARGETS[layer] else ''}")
    for layer, labels in count_labels(passages).items():
        lines.append(f"  {layer}: " + ", ".join(f"{label} {count}" for label, count in sorted(labels.items())))
    return "\n".join([*lines, *_shortcuts(passages)])


def _shortcuts(passages: Sequence[Passage]) -> list[str]:
    """How far a lazy system would come: pairs told by their words, answers looked for in the first sentence."""
    lines = []
    for name, same in (("paraphrases", True), ("other pairs", False)):
        shared = [
            overlap(units(pair.text_a, passage.language), units(pair.text_b, passage.language))
            for passage in passages
            for pair in passage.pairs
            if pair.same == same
        ]
        lines.append(f"  word overlap of {name}: {sum(shared) / max(1, len(shared)):.2f}")
    early = [
        question.answers[0].start < passage.sentences[0].end
        for passage in passages
        for question in passage.questions
        if question.answers
    ]
    lines.append(f"  answers in the first sentence: {sum(early) / max(1, len(early)):.0%}")
    for name, answerable in (("answerable", True), ("unanswerable", False)):
        lines.append(
            f"  {name} questions about dates and amounts: {dates_and_amounts(passages, answerable=answerable):.0%}"
        )
    return lines


def main(arguments: Sequence[str]) -> int:
    """Check the files named, or all that are shipped."""
    paths = [Path(argument) for argument in arguments] or sorted(SHIPPED.glob("*.txt"))
    everything, faults = read_files(paths)
    passages = [checked.passage for checked in everything]
    findings = list(find(everything))
    problems = [*map(str, faults), *(str(finding) for finding in findings if not finding.note)]
    if not arguments:
        problems += check_totals(passages, sum(path.stat().st_size for path in paths))
    notes = [str(finding) for finding in findings if finding.note]
    summary = f"{len(problems)} problems, {len(notes)} notes"
    sys.stdout.write("\n".join([*problems, *notes, report(passages), summary]) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
