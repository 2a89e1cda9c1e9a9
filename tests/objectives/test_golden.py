"""Fifty steps of every system at size tiny: bit-equal twice over, and equal to the recorded losses.

A change that is meant to alter the numbers records them anew: `python -m tests.objectives.test_golden`.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from spanlab.encoder import Electra, Encoder, preset
from spanlab.objectives import Criterion, TensorBatch, build_criterion
from tests.objectives.batches import CLS, FIRST_WORD, SEP, Masked, batch_of

RECORDED = Path(__file__).with_name("golden_losses.json")
STEPS, BATCH = 50, 8
TEXT = """
the ferry left the harbour before the fog came in from the open sea
nobody on the pier had seen the captain since the storm of last week
a small lamp in the window of the old customs house was still burning
the keeper of the lamp wrote down every ship that passed in the night
her book began with the name of a ship that had never come back
in spring the children of the island learned to count by its pages
the oldest of them could say the names of all ships from memory
when the ferry did not return they lit the lamp and read the book aloud
the fog grew thin and the harbour could be seen from the hill again
by morning the captain stood on the pier and asked for his name
""".strip().splitlines()
SYSTEMS: dict[str, dict[str, float]] = {
    "bert": {"mlm": 1.0, "nsp": 1.0},
    "roberta": {"mlm": 1.0},
    "albert": {"mlm": 1.0, "sop": 1.0},
    "spanbert": {"mlm": 1.0, "sbo": 1.0},
    "electra": {"mlm": 1.0, "rtd": 50.0},
}
WORDS = sorted({word for line in TEXT for word in line.split()})
LINES = [[FIRST_WORD + WORDS.index(word) for word in line.split()] for line in TEXT]
VOCAB = FIRST_WORD + len(WORDS)


def sequence(rng: np.random.Generator, number: int, *, pairs: bool) -> Masked:
    """Two neighbouring lines, swapped half of the time where pairs are asked for, with two or three masked spans."""
    place = int(rng.integers(0, len(LINES) - 1))
    first, second = LINES[place], LINES[place + 1]
    swapped = pairs and bool(rng.integers(0, 2))
    first, second = (second, first) if swapped else (first, second)
    ids = (CLS, *first, SEP, *second, SEP) if pairs else (CLS, *first, *second, SEP)
    words = [place for place, token in enumerate(ids) if token >= FIRST_WORD]
    spans, after = [], 0
    for start in sorted(rng.choice(words[:-3], size=3, replace=False).tolist()):
        last = start + int(rng.integers(0, 3))
        if start > after and all(ids[place] >= FIRST_WORD for place in range(start, last + 1)):
            spans.append((start, last))
            after = last + 1
    return Masked(
        ids=ids,
        spans=tuple(spans),
        segment_starts=len(first) + 2 if pairs else None,
        pair_label=int(swapped) if pairs else -1,
        seed=number,
    )


def build(system: str) -> Criterion:
    config = preset(system, "tiny", vocab_size=VOCAB)
    return build_criterion(Electra.build(config) if system == "electra" else Encoder(config), SYSTEMS[system])


def train(system: str) -> list[float]:
    """The loss of each step."""
    torch.manual_seed(0)
    criterion: Any = build(system)
    optimizer = torch.optim.AdamW(criterion.parameters(), lr=5e-4)
    pairs = bool({"nsp", "sop"} & set(SYSTEMS[system]))
    losses = []
    for step in range(STEPS):
        rng = np.random.default_rng((7, step))
        examples = batch_of([sequence(rng, step * BATCH + number, pairs=pairs) for number in range(BATCH)])
        loss = criterion(TensorBatch.from_examples(examples)).value
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("system", SYSTEMS)
def test_two_runs_are_bit_equal_and_as_recorded(system: str) -> None:
    losses = train(system)
    assert train(system) == losses
    assert losses == pytest.approx(json.loads(RECORDED.read_text())[system], rel=1e-4)
    assert np.mean(losses[-10:]) < 0.93 * np.mean(losses[:5])


if __name__ == "__main__":
    torch.set_num_threads(1)
    recorded = {system: train(system) for system in SYSTEMS}
    lines = [f'  "{system}": {json.dumps([round(loss, 6) for loss in losses])}' for system, losses in recorded.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
