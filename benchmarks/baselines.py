"""What the simplest rules score on the data of the benchmarks: the scores of a model mean little without them.

    python -m benchmarks.baselines

By task: the majority label; the share of common words of two sentences; a table of the training entities, the longest
match from the left; the first sentence of the context; and on GAP, TRUE for every name. The training and dev examples
are those of `benchmarks.finetune`, `benchmarks.multitask` and `benchmarks.languages`, the metrics those of the product.
"""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.finetune import CONTESTS, data_folder, read_task_file
from benchmarks.languages import CASES
from benchmarks.measure import print_result
from benchmarks.multitask import SUBJECTS
from spanlab.metrics.classification import score_classes
from spanlab.metrics.coref import score_gap
from spanlab.metrics.entities import score_entities
from spanlab.metrics.similarity import score_similarity
from spanlab.metrics.squad import score_answers
from spanlab.tasks.coref.pronouns import gender
from spanlab.text.sentences import sentence_spans
from spanlab.text.words import script_language, word_spans

Rows = Sequence[Mapping[str, Any]]


def majority(train: Rows, dev: Rows) -> dict[str, float]:
    """The most frequent label of the training data."""
    label = Counter(str(row["label"]) for row in train).most_common(1)[0][0]
    return score_classes([str(row["label"]) for row in dev], [label] * len(dev))


def common_words(dev: Rows) -> dict[str, float]:
    """The share of words that two sentences have in common, as their similarity."""
    words = [[set(str(row[name]).lower().split()) for name in ("text_a", "text_b")] for row in dev]
    shares = [len(a & b) / max(1, len(a | b)) for a, b in words]
    return score_similarity([float(row["score"]) for row in dev], shares)


def entity_table(train: Rows, dev: Rows) -> dict[str, float]:
    """Every sequence of words that was an entity of the training data, with its most frequent label."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in train:
        for span in row["spans"]:
            counts[row["text"][span["start"] : span["end"]]][span["label"]] += 1
    labels = {name: found.most_common(1)[0][0] for name, found in counts.items()}
    longest = max(map(len, labels))
    gold = [[(span["start"], span["end"], span["label"]) for span in row["spans"]] for row in dev]
    return score_entities(gold, [_known_entities(row["text"], labels, longest) for row in dev])


def _known_entities(text: str, labels: Mapping[str, str], longest: int) -> list[tuple[int, int, str]]:
    words, found, reached = word_spans(text), [], 0
    ends = [end for _, end in words]
    for start, _ in words:
        if start < reached:
            continue
        known = [end for end in ends if start < end <= start + longest and text[start:end] in labels]
        if known:
            reached = max(known)
            found.append((start, reached, labels[text[start:reached]]))
    return found


def first_sentence(dev: Rows) -> dict[str, float]:
    """The first sentence of the context as the answer."""
    answers = [row["context"][slice(*sentence_spans(row["context"])[0])] for row in dev]
    gold = [[answer["text"] for answer in row["answers"]] for row in dev]
    return score_answers(gold, answers, language=script_language(row["question"] for row in dev))


def always_true(rows: Rows) -> dict[str, float]:
    """Both names of every question of GAP."""
    gold = [(bool(row["a_coref"]), bool(row["b_coref"])) for row in rows]
    genders = [gender(row["text"][slice(*row["pronoun"])]) or "" for row in rows]
    return score_gap(gold, [(True, True)] * len(rows), genders)


def baseline(task: str, train: Rows, dev: Rows) -> dict[str, float]:
    """The rule of the task."""
    if task == "ner":
        return entity_table(train, dev)
    if task == "qa":
        return first_sentence(dev)
    return common_words(dev) if dev[0].get("score") is not None else majority(train, dev)


def main() -> None:
    """Print all of them; the last line is the result for scripts."""
    data, found = data_folder(), {}
    for name, contest in CONTESTS.items():
        train = list(islice(contest.train(data), 0, contest.train_count * contest.every, contest.every))
        found[f"finetune, {name}"] = baseline(contest.task, train, list(islice(contest.dev(data), contest.dev_count)))
    for name, subject in SUBJECTS.items():
        train, dev = list(islice(subject.train(data), subject.train_count)), list(subject.dev(data))
        found[f"multitask, {name}"] = baseline(subject.task, train, dev[: subject.dev_count])
    for name, case in CASES.items():
        with tempfile.TemporaryDirectory() as folder:
            files = case.split(data, Path(folder))
            train, dev = (list(read_task_file(case.task, path)) for path in files)
        found[f"languages, {name}"] = baseline(case.task, train, dev)
    found["gap"] = always_true(list(read_task_file("coref", data / "coref/gap.dev.tsv")))
    for name, metrics in found.items():
        print(f"{name}: {', '.join(f'{metric} {value:.2f}' for metric, value in metrics.items())}", flush=True)
    print_result({name: {metric: round(value, 2) for metric, value in row.items()} for name, row in found.items()})


if __name__ == "__main__":
    main()
