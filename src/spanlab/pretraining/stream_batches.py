"""The batches of a run over continuous streams, where each step continues from the previous one (XLNet, ELMo).

A corpus and a recipe go in, the examples of each step and process come out. Step t takes block t of every stream, so
there are as many streams as sequences per step, and nothing is shuffled. At the end of an epoch all streams start over
and the recurrent state is reset. Each micro-batch of each process always has the same streams, whose state it keeps.

The end of every stream is held out. Streams are consecutive parts of the corpus, so held-out text comes from all over
it, and none of its tokens is trained on, in whichever direction a stream is read.
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
    """The batches of a run over continuous streams."""

    def __init__(self, corpus: PreparedCorpus, recipe: Recipe) -> None:
        check_streams(recipe)
        self._streams, self._accumulate = recipe.streams, recipe.training.accumulate
        training_share = 1.0 - recipe.data.held_out
        self._training = Examples(corpus, recipe, (0.0, training_share))
        self.held_out: HeldOutStreams | None = None
        if recipe.data.held_out:
            _check_held_out(corpus, recipe)
            self.held_out = HeldOutStreams(Examples(corpus, recipe, (training_share, 1.0)), self._accumulate)
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
    """The held-out ends of the streams."""

    def __init__(self, examples: Examples, accumulate: int) -> None:
        self._examples, self._streams, self._accumulate = examples, examples.recipe.streams, accumulate
        self._steps = min(len(examples) // self._streams, -(-SCORED // self._streams))

    def held_out_batches(self, *, rank: int, world_size: int) -> Iterator[tuple[ExampleBatch, bool]]:
        """The batches of one process, step by step, with the streams it has in training; all count."""
        groups = shard_step(np.arange(self._streams), self._accumulate, rank=rank, world_size=world_size)
        for step in range(self._steps):
            for group in groups:
                yield self._examples.batch(step * self._streams + group, HELD_OUT_EPOCH), True

    def held_out_samples(self) -> int:
        """The number of samples that an evaluation scores."""
        return self._steps * self._streams

    def training_counts(self) -> Integers:
        """(V,) how often each token occurs in the training text."""
        return token_counts(self._examples, *self._examples.text_ranges())


def check_streams(recipe: Recipe) -> None:
    """Refuse settings under which a step cannot continue from the previous one."""
    training = recipe.training
    if recipe.streams != training.batch_size:
        cause = (
            f"data.streams is {recipe.streams}, but training.batch_size is {training.batch_size}: each step takes the"
        )
        fix = "leave data.streams out: it follows training.batch_size"
        raise ConfigError(f"{cause} next block of every stream", fix=fix)
    if recipe.data.phases:
        raise ConfigError("data.phases cannot be used with recurrent streams", fix="set data.phases=[]")
    if training.batch_warmup:
        raise ConfigError(
            "training.batch_warmup cannot be used with recurrent streams", fix="set training.batch_warmup=0"
        )


def _check_held_out(corpus: PreparedCorpus, recipe: Recipe) -> None:
    streams = recipe.streams // 2 if recipe.data.both_ways else recipe.streams
    tokens = corpus.counts.tokens // max(1, streams)
    held_out = int(recipe.data.held_out * tokens)
    if held_out <= recipe.data.length:
        cause = f"{held_out} tokens held out of each of {streams} streams do not fill a sample of {recipe.data.length}"
        fix = "raise data.held_out, lower training.batch_size, or set data.held_out=0"
        raise InputError(cause, path=corpus.folder, fix=fix)
