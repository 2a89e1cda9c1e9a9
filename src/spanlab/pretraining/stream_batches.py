"""The batches of a run over continuous streams, where each step goes on from the one before (XLNet, ELMo).

Step t takes block t of every stream, so there are as many streams as sequences a step, and nothing is shuffled. At the
end of a pass all streams begin again, and what was carried is forgotten. A process works on the same streams all the
time, and so does each of its micro-batches: what a stream left behind is where it goes on.

Held out is the end of every stream. Streams follow one another in the corpus, so that is text from all over it; and no
token of it is trained on, in whichever direction a stream is read.
"""

from collections.abc import Iterator

import numpy as np

from spanlab.arrays import Integers
from spanlab.corpus import PreparedCorpus
from spanlab.corruption import ExampleBatch
from spanlab.errors import ConfigError, InputError
from spanlab.pretraining.batches import HELD_OUT_EPOCH, SCORED, ExampleSteps, shard_step, token_counts
from spanlab.pretraining.examples import Examples
from spanlab.pretraining.recipe import Recipe


class StreamData(ExampleSteps):
    """What the loop asks for the batches of each step."""

    def __init__(self, corpus: PreparedCorpus, recipe: Recipe) -> None:
        check_streams(recipe)
        self._streams, self._accumulate = recipe.streams, recipe.training.accumulate
        edge = 1.0 - recipe.data.held_out
        self._training = Examples(corpus, recipe, (0.0, edge))
        self.held_out: HeldOutStreams | None = None
        if recipe.data.held_out:
            _check_held_out(corpus, recipe)
            self.held_out = HeldOutStreams(Examples(corpus, recipe, (edge, 1.0)), self._accumulate)
        self._steps = len(self._training) // self._streams
        self.steps_per_epoch = float(self._steps)

    def step(self, step: int, *, rank: int, world_size: int) -> list[ExampleBatch]:
        """The micro-batches of a step for one process."""
        epoch, index = divmod(step, self._steps)
        groups = shard_step(np.arange(self._streams), self._accumulate, rank=rank, world_size=world_size)
        return [self._training.batch(index * self._streams + group, epoch) for group in groups]

    def epoch(self, step: int) -> float:
        """Passes over the streams."""
        return step / self._steps


class HeldOutStreams:
    """The ends of the streams, from their first step on."""

    def __init__(self, examples: Examples, accumulate: int) -> None:
        self._examples, self._streams, self._accumulate = examples, examples.recipe.streams, accumulate
        self._steps = min(len(examples) // self._streams, -(-SCORED // self._streams))

    def held_out_turns(self, *, rank: int, world_size: int) -> Iterator[tuple[ExampleBatch, bool]]:
        """The batches of one process, step by step, each of the streams it is given in training; all count."""
        groups = shard_step(np.arange(self._streams), self._accumulate, rank=rank, world_size=world_size)
        for step in range(self._steps):
            for group in groups:
                yield self._examples.batch(step * self._streams + group, HELD_OUT_EPOCH), True

    def training_counts(self) -> Integers:
        """(V,) how often each token is there to be learnt from."""
        return token_counts(self._examples, *self._examples.text_ranges())


def check_streams(recipe: Recipe) -> None:
    """Refuse what would break streams off."""
    training = recipe.training
    if recipe.streams != training.batch_size:
        cause = f"data.streams is {recipe.streams}, and training.batch_size {training.batch_size}: each step takes the"
        fix = "leave data.streams out: it follows training.batch_size"
        raise ConfigError(f"{cause} next block of every stream", fix=fix)
    if recipe.data.phases:
        raise ConfigError("data.phases cannot be had with streams that go on", fix="set data.phases=[]")
    if training.batch_warmup:
        raise ConfigError("a batch cannot grow with streams that go on", fix="set training.batch_warmup=0")


def _check_held_out(corpus: PreparedCorpus, recipe: Recipe) -> None:
    streams = recipe.streams // 2 if recipe.data.both_ways else recipe.streams
    tokens = corpus.counts.tokens // max(1, streams)
    held_out = int(recipe.data.held_out * tokens)
    if held_out <= recipe.data.length:
        cause = f"{held_out} tokens held out of each of {streams} streams are no whole sample of {recipe.data.length}"
        fix = "raise data.held_out, lower training.batch_size, or set data.held_out=0"
        raise InputError(cause, path=corpus.folder, fix=fix)
