"""What the routes of a server share: its models, its queue, and the way of a request through both.

Rows enter; JSON texts leave. Reading, tokenising and decoding run in a few threads beside the event loop, a portion of
inputs at a time, so that neither a long list nor a long text stops the loop or fills the memory; computing runs in the
batcher's threads.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
from fastapi import Request
from numpy.typing import NDArray

from spanlab.errors import SpanlabError
from spanlab.inference.finite_results import check_rows
from spanlab.inference.predictor import EMBEDDING, EncodedRows, Predictor
from spanlab.inference.writers import full_record, to_json
from spanlab.serving.batcher import Batcher, Outputs, Ticket
from spanlab.serving.metrics import ServerMetrics
from spanlab.serving.refusals import RefusalError, invalid
from spanlab.serving.served_model import ServedModel, check_models, find_model
from spanlab.serving.settings import ServeSettings
from spanlab.tasks.formats.row import Row
from spanlab.tasks.outputs import embedding_samples, embedding_vectors

Answer = TypeVar("Answer")
_PORTION, _PORTION_CHARACTERS = 64, 200_000
"""The most inputs and characters of a list that are tokenised at once; a longer input is a portion of its own."""
_PORTIONS_AT_ONCE = 2
"""So that the next portion is tokenised while one is computed."""
TEXT_THREADS = 4
"""That read, tokenise and decode; they wait for each other where there are fewer cores, without harm."""
_POLL = 0.05


class Serving:
    """The state of a server, in `app.state.serving`."""

    def __init__(self, settings: ServeSettings, models: Sequence[ServedModel]) -> None:
        check_models(models)
        self.settings = settings
        self.models = tuple(models)
        self.metrics = ServerMetrics()
        self.batcher = Batcher(batch_tokens=settings.batch_tokens, queue=settings.queue, metrics=self.metrics)
        self.draining = False
        self.in_flight = 0
        """Requests that were let in and are not yet answered."""
        self.body_bytes = 0
        """Of the bodies of these requests, as far as they have arrived."""
        self._pool = ThreadPoolExecutor(TEXT_THREADS, thread_name_prefix="spanlab-text")

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Context in which requests are computed."""
        self.batcher.start()
        try:
            yield
        finally:
            await asyncio.to_thread(self.batcher.stop)
            self._pool.shutdown(wait=False, cancel_futures=True)

    def model(self, name: str | None, *, task: str | None = None) -> ServedModel:
        """The model of a name, or the first with a task."""
        return find_model(self.models, name, task=task)

    async def in_pool(self, function: Callable[..., Answer], *arguments: Any) -> Answer:  # noqa: ANN401
        """What a function returns that would hold up the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)

    async def run(self, function: Callable[[], Answer]) -> Answer:
        """What a function returns that computes with a model, in the lane of long work; it counts as one input."""
        with self.batcher.ticket(1) as ticket:
            return await ticket.call(function)

    # ---- tasks

    async def predict(
        self,
        model: ServedModel,
        tasks: str | Sequence[str],
        rows: Sequence[Row | RefusalError],
        ids: Sequence[str],
    ) -> list[str | RefusalError]:
        """The JSON of each row's result, or why there is none; of a sequence of tasks, an object by their name."""
        with self.batcher.ticket(len(rows)) as ticket:

            async def portion(start: int, stop: int) -> list[str | RefusalError]:
                part = _Portion(self.metrics, model, tasks, rows[start:stop], ids[start:stop])
                await self.in_pool(part.encode)
                computing = (ticket.compute(model.predictor, encoded.samples) for encoded in part.encoded)
                outputs = await asyncio.gather(*computing)
                return await self.in_pool(part.decode, outputs)

            return [answer for answers in await _in_turns(rows, portion) for answer in answers]

    # ---- vectors

    async def embed(self, model: ServedModel, texts: Sequence[str]) -> tuple[NDArray[np.float32], int]:
        """(E, D) unit vectors of texts, and the number of tokens computed for them."""
        predictor = model.predictor
        rows = [Row(values={"text": text}) for text in texts]
        with self.batcher.ticket(len(texts)) as ticket:

            async def portion(start: int, stop: int) -> tuple[NDArray[np.float32], int]:
                return await self._embed(predictor, ticket, texts[start:stop])

            parts = await _in_turns(rows, portion)
        width = predictor.model.shape.width
        vectors = np.concatenate([part for part, _ in parts]) if parts else np.zeros((0, width), np.float32)
        return vectors, sum(tokens for _, tokens in parts)

    async def _embed(
        self, predictor: Predictor, ticket: Ticket, texts: Sequence[str]
    ) -> tuple[NDArray[np.float32], int]:
        start = time.perf_counter()
        samples = await self.in_pool(embedding_samples, predictor.embedding_windower(), texts)
        self.metrics.tokenize_seconds.observe(time.perf_counter() - start)
        outputs = await ticket.compute(predictor, {EMBEDDING: samples})
        width = predictor.model.shape.width

        def pool() -> NDArray[np.float32]:
            vectors = embedding_vectors(samples, outputs[EMBEDDING], count=len(texts), width=width)
            check_rows(vectors)
            return vectors

        return await self.in_pool(pool), sum(sample.tokens for sample in samples)

    # ---- requests

    async def answer(self, request: Request, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What the work for a request gives; it is dropped at the timeout, and where the client has gone."""
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(_disconnect(request))
        try:
            await asyncio.wait({task, gone}, timeout=self.settings.timeout, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return await task
            if gone.done():
                raise ClientGoneError
            message = f"not computed within {self.settings.timeout:g} seconds; send less, or fewer requests at once"
            raise RefusalError(504, "timeout", message)
        finally:
            for each in (task, gone):
                each.cancel()
            with suppress(asyncio.CancelledError, RefusalError, SpanlabError):
                await asyncio.gather(task, gone, return_exceptions=True)


class ClientGoneError(Exception):
    """The client closed the connection before its answer was there."""


async def _disconnect(request: Request) -> None:
    """Return when the client of a request whose body was read closes the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        await asyncio.sleep(_POLL)


class _Portion:
    """Some inputs of a request, from rows to JSON; its methods run in a thread of the pool."""

    def __init__(
        self,
        metrics: ServerMetrics,
        model: ServedModel,
        tasks: str | Sequence[str],
        rows: Sequence[Row | RefusalError],
        ids: Sequence[str],
    ) -> None:
        self._metrics, self._predictor, self._rows, self._ids = metrics, model.predictor, rows, ids
        self._is_single = isinstance(tasks, str)
        names = [tasks] if isinstance(tasks, str) else tasks
        self._served = {model.own_name(task): task for task in names}
        self._answers: list[str | RefusalError | None] = [
            row if isinstance(row, RefusalError) else None for row in rows
        ]
        self.encoded: list[EncodedRows] = []
        """What was encoded together: all usable rows, or each alone where one of them is refused."""
        self._indices: list[list[int]] = []

    def encode(self) -> None:
        """Rows to samples; a row that is refused is kept as its refusal."""
        start = time.perf_counter()
        usable = [index for index, answer in enumerate(self._answers) if answer is None]
        try:
            self._encode(usable)
        except SpanlabError:
            for index in usable:
                try:
                    self._encode([index])
                except SpanlabError as error:
                    self._answers[index] = invalid(error)
        self._metrics.tokenize_seconds.observe(time.perf_counter() - start)

    def _encode(self, indices: list[int]) -> None:
        rows = [row for index in indices if isinstance(row := self._rows[index], Row)]
        if rows:
            self.encoded.append(self._predictor.encode_rows(rows, tasks=list(self._served)))
            self._indices.append(indices)

    def decode(self, outputs: Sequence[Outputs]) -> list[str | RefusalError]:
        """The answer of each row, in order."""
        start = time.perf_counter()
        for encoded, indices, part in zip(self.encoded, self._indices, outputs, strict=True):
            try:
                self._decode(encoded, indices, part)
            except SpanlabError:
                self._decode_alone(encoded, indices, part)
        self._metrics.decode_seconds.observe(time.perf_counter() - start)
        assert all(answer is not None for answer in self._answers)
        return [answer for answer in self._answers if answer is not None]

    def _decode(self, encoded: EncodedRows, indices: Sequence[int], outputs: Outputs) -> None:
        results = self._predictor.decode(encoded, outputs)
        for position, index in enumerate(indices):
            records = {
                served: {**full_record(results[own][position]), "id": self._ids[index]}
                for own, served in self._served.items()
            }
            self._answers[index] = to_json(next(iter(records.values())) if self._is_single else records)

    def _decode_alone(self, encoded: EncodedRows, indices: Sequence[int], outputs: Outputs) -> None:
        """Each row by itself, so that one without a result is the only one."""
        for position, index in enumerate(indices):
            chosen = {
                name: [number for number, sample in enumerate(part) if sample.example == position]
                for name, part in encoded.samples.items()
            }
            alone = EncodedRows(
                rows=[encoded.rows[position]],
                examples={name: [part[position]] for name, part in encoded.examples.items()},
                samples={
                    name: [replace(part[number], example=0) for number in chosen[name]]
                    for name, part in encoded.samples.items()
                },
            )
            try:
                part = {name: [outputs[name][number] for number in numbers] for name, numbers in chosen.items()}
                self._decode(alone, [index], part)
            except SpanlabError as error:
                self._answers[index] = invalid(error)


def _portions(rows: Sequence[Row | RefusalError]) -> Iterator[tuple[int, int]]:
    """Where each portion starts and ends."""
    start, characters = 0, 0
    for index, row in enumerate(rows):
        size = 0 if isinstance(row, RefusalError) else sum(map(_length, row.values.values()))
        if index > start and (index - start >= _PORTION or characters + size > _PORTION_CHARACTERS):
            yield start, index
            start, characters = index, 0
        characters += size
    if rows:
        yield start, len(rows)


def _length(value: object) -> int:
    """The characters of a field, or of the texts of a list."""
    if isinstance(value, list):
        return sum(map(_length, value))
    return len(value) if isinstance(value, str) else 1


async def _in_turns(
    rows: Sequence[Row | RefusalError], portion: Callable[[int, int], Awaitable[Answer]]
) -> list[Answer]:
    """What comes of each portion of rows, in order; a few of them at a time."""
    answers: dict[int, Answer] = {}
    numbered = enumerate(_portions(rows))

    async def work() -> None:
        for index, (start, stop) in numbered:
            answers[index] = await portion(start, stop)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(_PORTIONS_AT_ONCE):
                group.create_task(work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    return [answers[index] for index in range(len(answers))]
