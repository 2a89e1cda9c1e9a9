"""`nlp.pipe` with the component `spanlab` beside `Predictor.predict` on the same texts and by the same model.

    python -m benchmarks.spacy_pipe --model reader --task entities --texts 1000 --rounds 3

The texts are sentences of the almanac. Each round times both, one after the other, in turns of who goes first; spaCy's
share is its tokenizer and its documents. The entities of both are compared: they must be the same.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable

import spacy

import spanlab
import spanlab.integrations.spacy  # the entry point of an installed package does this
from spanlab.samples import load
from spanlab.text.sentences import sentence_spans


def make_texts(count: int) -> list[str]:
    """So many sentences, over again where there are fewer."""
    passages = [passage.text for passage in load() if passage.language == "en"]
    sentences = [text[start:end] for text in passages for start, end in sentence_spans(text)]
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
    found: dict[str, list[object]] = {}
    for index in range(arguments.rounds):
        for name in sorted(sides, reverse=bool(index % 2)):
            start = time.perf_counter()
            found[name] = sides[name]()
            seconds[name].append(time.perf_counter() - start)
        print({name: round(times[-1], 2) for name, times in seconds.items()}, flush=True)
    ratios = [pipe / predict for pipe, predict in zip(seconds["pipe"], seconds["predict"], strict=True)]
    result = {
        "texts": len(texts),
        "characters": sum(map(len, texts)),
        "predict_seconds": round(statistics.median(seconds["predict"]), 3),
        "pipe_seconds": round(statistics.median(seconds["pipe"]), 3),
        "ratio": round(statistics.median(ratios), 3),
        "ratios": [round(ratio, 3) for ratio in ratios],
        "same_entities": _entities(found["predict"], "spans") == _entities(found["pipe"], "ents"),
    }
    print("RESULT", json.dumps(result))


def _entities(found: list[object], attribute: str) -> int:
    """How many entities there are in all."""
    return sum(len(getattr(item, attribute, ())) for item in found)


if __name__ == "__main__":
    main()
