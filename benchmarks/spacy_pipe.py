"""`nlp.pipe` with the component `spanlab` beside `Predictor.predict` on the same texts and by the same model.

    python -m benchmarks.spacy_pipe --model reader --task entities --texts 1000 --rounds 3

The texts are short sentences of the almanac. Each round measures both, one after the other, in turns of who goes first,
in seconds and in CPU seconds of all threads, which other processes on the machine change little; the ratio is of the
latter. spaCy's share is its tokenizer and its documents. The numbers of entities may differ by those that share a token
of spaCy's.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import spacy

import spanlab
import spanlab.integrations.spacy  # the entry point of an installed package does this
from benchmarks.measure import print_result
from spanlab.samples import load
from spanlab.text.sentences import sentence_spans

_LONGEST = 80
"""Characters of a text."""


def make_texts(count: int) -> list[str]:
    """So many sentences, over again where there are fewer."""
    passages = [passage.text for passage in load() if passage.language == "en"]
    sentences = [text[start:end] for text in passages for start, end in sentence_spans(text) if end - start <= _LONGEST]
    return [sentences[index % len(sentences)] for index in range(count)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="reader")
    parser.add_argument("--task", default="entities")
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    texts = make_texts(arguments.texts)
    predictor = spanlab.load(arguments.model)
    nlp = spacy.blank("en")
    nlp.add_pipe("spanlab", config={"model": arguments.model, "tasks": [arguments.task], "alignment": "expand"})
    sides: dict[str, Callable[[], list[object]]] = {
        "predict": lambda: list(predictor.predict(texts, task=arguments.task)),
        "pipe": lambda: list(nlp.pipe(texts)),
    }
    predictor.predict(texts[:8], task=arguments.task)  # adapters are merged and kernels chosen once
    list(nlp.pipe(texts[:8]))
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    cpu: dict[str, list[float]] = {name: [] for name in sides}
    found: dict[str, list[object]] = {}
    for index in range(arguments.rounds):
        for name in sorted(sides, reverse=bool(index % 2)):
            start, cpu_start = time.perf_counter(), time.process_time()
            found[name] = sides[name]()
            seconds[name].append(time.perf_counter() - start)
            cpu[name].append(time.process_time() - cpu_start)
        print({name: (round(seconds[name][-1], 2), round(cpu[name][-1], 2)) for name in sides}, flush=True)
    ratios = [pipe / predict for pipe, predict in zip(cpu["pipe"], cpu["predict"], strict=True)]
    result = {
        "texts": len(texts),
        "characters": sum(map(len, texts)),
        "predict_seconds": round(statistics.median(seconds["predict"]), 3),
        "pipe_seconds": round(statistics.median(seconds["pipe"]), 3),
        "predict_cpu_seconds": round(statistics.median(cpu["predict"]), 3),
        "pipe_cpu_seconds": round(statistics.median(cpu["pipe"]), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "entities": [_entities(found["predict"], "spans"), _entities(found["pipe"], "ents")],
    }
    print_result(result)


def _entities(found: list[object], attribute: str) -> int:
    """How many entities there are in all."""
    return sum(len(getattr(item, attribute, ())) for item in found)


if __name__ == "__main__":
    main()
