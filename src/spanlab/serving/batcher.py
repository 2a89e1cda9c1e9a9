"""The windows of all waiting requests, computed together in batches of a bounded number of tokens.

Requests open a ticket, hand in samples as they are tokenised, and await the outputs of the heads. A lane is one thread
that computes: it goes round the tickets that wait, takes some windows of each, at most `1 / SHARES` of a batch, fills
the batch with what is left of tickets that end with it, and computes what it took in one pass. So an input of a
thousand windows is computed a few windows at a time between others, and a short request waits for one batch, not for a
novel.

What cannot be cut (a document whose windows go to the head together, generated text, any other call) is computed in a
second lane where it is longer than half a batch. The two share the machine's cores: that slows the short requests down
while the other lane works, but does not stop them.

The bound of the queue counts inputs, whether they come alone or in a list. A request is accepted while there is room,
and then with all its inputs: a list of any length is accepted sooner or later, and the bound is exceeded by one list at
most, whose size the limit on bodies bounds.
"""

import asyncio
import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from spanlab.inference.predictor import Predictor
from spanlab.serving.metrics import ServerMetrics
from spanlab.serving.refusals import RefusalError
from spanlab.tasks.batching import sequence_key
from spanlab.tasks.sample import Sample

Answer = TypeVar("Answer")
Samples = Mapping[str, Sequence[Sample]]
Outputs = dict[str, list[Any]]
SHARES = 8
"""A request gets at most this part of a batch, so that as many requests share one."""
_LARGEST_REST = 8
"""The most windows of a request that are computed beyond its share, to answer it with this batch."""


@dataclass(kw_only=True, eq=False)
class _Work:
    """Samples of a ticket, or a call, and the future that awaits what comes of them."""

    predictor: Predictor | None
    samples: Samples
    outputs: Outputs
    future: "asyncio.Future[Any]"
    pieces_left: int = 0
    call: Callable[[], Any] | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def finish_piece(self) -> None:
        """One of the pieces is computed; after the last, whoever awaits the outputs gets them."""
        with self.lock:
            self.pieces_left -= 1
            is_done = not self.pieces_left
        if is_done:
            self.settle(None)

    def settle(self, error: Exception | None) -> None:
        """Give the outputs, or an error, to whoever awaits them, unless nobody does any more."""

        def settle() -> None:
            if self.future.done():
                return
            if error is None:
                self.future.set_result(self.outputs)
            else:
                self.future.set_exception(error)

        # The loop is closed where the server was forced to end.
        with suppress(RuntimeError):
            self.future.get_loop().call_soon_threadsafe(settle)


@dataclass(kw_only=True, eq=False)
class _Piece:
    """Samples that are computed together, because tasks share their sequence: the index of one by task."""

    work: _Work
    indices: Mapping[str, int]
    tokens: int
    windows: int


@dataclass(kw_only=True, eq=False)
class Ticket:
    """One request in the queue."""

    batcher: "Batcher"
    inputs: int
    opened: float = field(default_factory=time.perf_counter)
    started: bool = False
    closed: bool = False

    async def compute(self, predictor: Predictor, samples: Samples) -> Outputs:
        """The output of each task's head for each of its samples, in order."""
        outputs: Outputs = {name: [None] * len(part) for name, part in samples.items()}
        if not any(samples.values()):
            return outputs
        future: asyncio.Future[Outputs] = asyncio.get_running_loop().create_future()
        work = _Work(predictor=predictor, samples=samples, outputs=outputs, future=future)
        self.batcher.submit(self, list(_cut(work)))
        return await future

    async def call(self, function: Callable[[], Answer]) -> Answer:
        """What a function returns; it runs in the lane of long work, with nothing else."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        work = _Work(predictor=None, samples={}, outputs={}, future=future, call=function)
        self.batcher.submit(self, [_Piece(work=work, indices={}, tokens=0, windows=0)])
        return await future


def _cut(work: _Work) -> Iterator[_Piece]:
    """The pieces of samples: a sample of each task that has one with the same first sequence.

    A sequence that occurs several times in a task, as the windows of a text that repeats itself, is in as many pieces.
    """
    groups: dict[tuple[tuple[bytes, bytes], int], dict[str, int]] = {}
    for task, part in work.samples.items():
        occurrences: Counter[tuple[bytes, bytes]] = Counter()
        for index, sample in enumerate(part):
            key = sequence_key(sample.sequences[0])
            groups.setdefault((key, occurrences[key]), {})[task] = index
            occurrences[key] += 1
    for indices in groups.values():
        samples = [work.samples[task][index] for task, index in indices.items()]
        tokens, windows = max(sample.tokens for sample in samples), max(len(sample.sequences) for sample in samples)
        yield _Piece(work=work, indices=indices, tokens=tokens, windows=windows)


class _Lane:
    """A thread and the pieces that wait for it, by ticket."""

    def __init__(self, name: str, *, batch_tokens: int, metrics: ServerMetrics) -> None:
        self._batch_tokens, self._metrics = batch_tokens, metrics
        self._share = max(1, batch_tokens // SHARES)
        self._waiting: OrderedDict[Ticket, deque[_Piece]] = OrderedDict()
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def add(self, ticket: Ticket, pieces: Sequence[_Piece]) -> None:
        with self._changed:
            self._waiting.setdefault(ticket, deque()).extend(pieces)
            self._changed.notify()

    def drop(self, ticket: Ticket) -> None:
        with self._changed:
            self._waiting.pop(ticket, None)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
                pieces = self._take()
            self._compute(pieces)

    def _take(self) -> list[_Piece]:
        """The next batch: a share of each waiting ticket in turn, all of one model, or a call alone."""
        batch: list[_Piece] = []
        tokens = 0
        shared: list[Ticket] = []
        for ticket in list(self._waiting):
            pieces = self._waiting[ticket]
            taken, share = 0, self._share
            while pieces and self._fits(batch, tokens, pieces[0]) and (not taken or taken + pieces[0].tokens <= share):
                piece = pieces.popleft()
                batch.append(piece)
                taken, tokens = taken + max(1, piece.tokens), tokens + piece.tokens
            if taken:
                shared.append(ticket)
                self._note_start(ticket)
                self._waiting.move_to_end(ticket)
            if not pieces:
                del self._waiting[ticket]
            if batch and (batch[0].work.call is not None or tokens >= self._batch_tokens):
                break
        self._complete(shared, batch, tokens)
        self._metrics.batch_requests.observe(len(shared))
        return batch

    def _complete(self, tickets: Sequence[Ticket], batch: list[_Piece], tokens: int) -> None:
        """Fill the room that is left in a batch with the rest of requests that end with it.

        A text of a few windows is answered in one turn then. A long one is not: it would fill every batch to its end,
        and a short request that comes meanwhile would wait for all of that.
        """
        for ticket in tickets:
            pieces = self._waiting.get(ticket)
            if pieces is None or batch[0].work.call is not None or len(pieces) > _LARGEST_REST:
                continue
            rest = sum(piece.tokens for piece in pieces)
            if all(self._fits(batch, tokens, piece) for piece in pieces) and tokens + rest <= self._batch_tokens:
                batch.extend(pieces)
                tokens += rest
                del self._waiting[ticket]

    def _fits(self, batch: Sequence[_Piece], tokens: int, piece: _Piece) -> bool:
        if not batch:
            return True
        same_model = piece.work.predictor is not None and piece.work.predictor is batch[0].work.predictor
        return same_model and tokens + piece.tokens <= self._batch_tokens

    def _note_start(self, ticket: Ticket) -> None:
        if not ticket.started:
            ticket.started = True
            self._metrics.queue_seconds.observe(time.perf_counter() - ticket.opened)

    def _compute(self, pieces: Sequence[_Piece]) -> None:
        start = time.perf_counter()
        try:
            _compute_pieces(pieces, self._batch_tokens)
        except Exception as error:
            if len(pieces) == 1:
                pieces[0].work.settle(error)
                return
            for piece in pieces:  # one of them is at fault, and the others are not
                self._compute([piece])
            return
        self._metrics.infer_seconds.observe(time.perf_counter() - start)
        self._metrics.batch_tokens.observe(sum(piece.tokens for piece in pieces))
        self._metrics.batch_windows.observe(sum(piece.windows for piece in pieces))
        for piece in pieces:
            piece.work.finish_piece()


def _compute_pieces(pieces: Sequence[_Piece], batch_tokens: int) -> None:
    """Compute the samples of pieces of one model, or the one call, and keep what comes of them with their work."""
    predictor, call = pieces[0].work.predictor, pieces[0].work.call
    if call is not None:
        pieces[0].work.outputs = call()
        return
    assert predictor is not None
    samples: dict[str, list[Sample]] = {}
    places: dict[str, list[tuple[_Work, int]]] = {}
    for number, piece in enumerate(pieces):
        for task, index in piece.indices.items():
            samples.setdefault(task, []).append(replace(piece.work.samples[task][index], example=number))
            places.setdefault(task, []).append((piece.work, index))
    outputs = predictor.compute(samples, batch_tokens=batch_tokens)
    for task, computed in outputs.items():
        for (work, index), output in zip(places[task], computed, strict=True):
            work.outputs[task][index] = output


class Batcher:
    """The queue of a server and the lanes that compute it."""

    def __init__(self, *, batch_tokens: int, queue: int, metrics: ServerMetrics) -> None:
        self._batch_tokens, self._queue, self._metrics = batch_tokens, queue, metrics
        self._lanes: tuple[_Lane, _Lane] | None = None
        self._inputs = 0
        self._pace = 1.0
        """Seconds that an input took of late, from its acceptance to its answer and divided by those beside it."""

    def start(self) -> None:
        """Begin to compute."""
        self._lanes = (
            _Lane("spanlab-compute", batch_tokens=self._batch_tokens, metrics=self._metrics),
            _Lane("spanlab-compute-long", batch_tokens=self._batch_tokens, metrics=self._metrics),
        )

    def stop(self) -> None:
        """End after the batches that are being computed; what waits is not computed."""
        if self._lanes is not None:
            for lane in self._lanes:
                lane.stop()
        self._lanes = None

    @property
    def waiting(self) -> int:
        """Inputs accepted and not yet answered."""
        return self._inputs

    def check_room(self) -> None:
        """Refuse where the queue is full."""
        if self._inputs >= self._queue:
            message = f"{self._inputs} inputs wait and the queue takes {self._queue}; try again later"
            raise RefusalError(429, "queue_full", message, headers={"Retry-After": str(self._seconds_to_wait())})

    @contextmanager
    def ticket(self, inputs: int) -> Iterator[Ticket]:
        """A place in the queue for a request of so many inputs; at its end, whatever of it still waits is dropped."""
        self.check_room()
        ticket = Ticket(batcher=self, inputs=inputs)
        self._inputs += inputs
        self._metrics.waiting_inputs.set(self._inputs)
        try:
            yield ticket
        finally:
            ticket.closed = True
            for lane in self._lanes or ():
                lane.drop(ticket)
            beside = max(1, self._inputs)
            self._inputs -= inputs
            self._metrics.waiting_inputs.set(self._inputs)
            self._pace += 0.1 * ((time.perf_counter() - ticket.opened) / beside - self._pace)

    def submit(self, ticket: Ticket, pieces: Sequence[_Piece]) -> None:
        """Hand in pieces of one piece of work."""
        assert self._lanes is not None, "the batcher was not started"
        pieces[0].work.pieces_left = len(pieces)
        short, long = self._lanes
        parts: dict[bool, list[_Piece]] = {}
        for piece in pieces:
            parts.setdefault(self._is_long(piece), []).append(piece)
        for is_long, part in parts.items():
            (long if is_long else short).add(ticket, part)

    def _is_long(self, piece: _Piece) -> bool:
        predictor = piece.work.predictor
        if predictor is None or 2 * piece.tokens > self._batch_tokens:
            return True
        return any(predictor.generates(task) for task in piece.indices)

    def _seconds_to_wait(self) -> int:
        """About as long as half of the queue takes."""
        return min(60, max(1, round(self._pace * self._queue / 2)))
