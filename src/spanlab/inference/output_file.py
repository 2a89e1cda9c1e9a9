"""The output file of a prediction: whole under its name or not there at all, and resumable while it is unfinished.

Results are written to `NAME.partial`, which becomes NAME after the last one. The state beside it, `NAME.partial.json`:

| key | |
|---|---|
| `made_by` | the fingerprint of the model, the tasks, the format, and the settings and versions that change a result |
| `model` | where the model was, for messages |
| `results`, `bytes` | the number of results after the last whole portion of inputs, and the size of the file then |
| `inputs` | the SHA-256 of the inputs they are for |

A portion is what is computed together, so its results depend on where it begins. Resuming therefore drops what came
after the last whole portion and continues there: the file is then the same, to the byte, as from an undisturbed run.
The partial file is locked while a process writes it.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from spanlab.atomic_io import disk_problem, rename, sha256_of, write_json
from spanlab.errors import InputError
from spanlab.inference.predictor import PredictedPortion, Predictor
from spanlab.inference.writers import OutputFormat
from spanlab.strict_parsing import read_json
from spanlab.tasks.formats.row import Row
from spanlab.version import __version__

_MODEL_FILES = {".safetensors", ".bin", ".json", ".onnx", ".txt", ".model"}
_START_AGAIN = "start again with --overwrite, or choose another --output"


@dataclass(frozen=True, kw_only=True)
class _State:
    """The content of `NAME.partial.json`."""

    made_by: Mapping[str, Any]
    model: str
    results: int = 0
    bytes: int = 0
    inputs: str = ""


class OutputFile:
    """An output that this process alone writes, within a `with` block: `begin`, then `write`."""

    def __init__(self, path: Path, *, resume: bool, overwrite: bool) -> None:
        self.path = path
        self._resume, self._overwrite = resume, overwrite
        self._target = path.resolve() if path.is_symlink() else path
        self._is_device = path.exists() and not path.is_file()
        """A pipe, a terminal or /dev/null is written directly."""
        self.partial = path if self._is_device else self._target.with_name(f"{self._target.name}.partial")
        self._state_path = self._target.with_name(f"{self._target.name}.partial.json")
        self._state: _State | None = None
        self._resumable = self._begun = False
        self._digest = hashlib.sha256()

    @property
    def done(self) -> int:
        """The results of whole portions."""
        return 0 if self._state is None else self._state.results

    @property
    def kept(self) -> int:
        """The results that are kept, once this process has written some."""
        return self.done if self._begun else 0

    def __enter__(self) -> Self:
        if self.path.is_dir():
            raise InputError("is a folder", path=self.path, fix="give the name of a file in --output")
        if not self._target.parent.is_dir():
            raise InputError("no such folder", path=self._target.parent, fix="create it, or choose another --output")
        if self._is_device:
            self._file: BinaryIO = self.path.open("wb")
            return self
        self._check_existing()
        self._file = _open_locked(self.partial, self.path)
        try:
            self._check_existing()  # again, since another process may just have finished
        except BaseException:
            self._file.close()
            raise
        return self

    def _check_existing(self) -> None:
        """Raise where there is an output that must not be replaced; reads the state of one to be resumed."""
        if self._overwrite:
            return
        state = _read_state(self._state_path) if self._state_path.exists() else None
        if self._resume and state is not None:
            self._state = state
        elif self._resume and self.path.exists():
            cause = "exists, and there is no unfinished output beside it that could be resumed"
            raise InputError(cause, path=self.path, fix="use --overwrite, or choose another --output")
        elif state is not None and state.results:
            cause = f"an unfinished output with {state.results:,} results"
            raise InputError(cause, path=self.partial, fix="continue it with --resume, or replace it with --overwrite")
        elif self.path.exists():
            raise InputError("file exists", path=self.path, fix="use --overwrite, or choose another --output")

    def begin(self, made_by: Mapping[str, Any], model: str, *, resumable: bool) -> None:
        """Start a new output or resume the unfinished one; raises where that was made by something else."""
        self._resumable = resumable and not self._is_device
        if self._resume and not self._resumable:
            raise InputError("only JSON lines can be resumed", path=self.path, fix="leave out --resume")
        if self._state is None:
            self._state = _State(made_by=made_by, model=model) if self._resumable else None
        else:
            self._check_made_by(self._state, made_by)
            size = self._file.seek(0, os.SEEK_END)
            if size < self._state.bytes:
                raise InputError("has lost some of its results", path=self.partial, fix=_START_AGAIN)
            self._file.truncate(self._state.bytes)

    def _check_made_by(self, state: _State, made_by: Mapping[str, Any]) -> None:
        for name in {**made_by, **state.made_by}:
            before, now = state.made_by.get(name), made_by.get(name)
            if before != now:
                with_what = f"another model, {state.model}" if name == "model" else f"{name} {before}, not {now}"
                fix = f"resume with the same {name}, or {_START_AGAIN}"
                raise InputError(f"was begun with {with_what}", path=self.partial, fix=fix)

    def skip_done(self, rows: Iterable[Row | InputError]) -> Iterator[Row | InputError]:
        """The rows that have no result yet; raises where those before are not the ones that the results are for."""
        remaining = iter(rows)
        if self._state is None or not self._state.results:
            return remaining
        skipped = list(islice(remaining, self._state.results))
        results = f"{self._state.results:,} results"
        if len(skipped) < self._state.results:
            cause = f"has {results}, but the input has only {len(skipped):,} examples"
            raise InputError(cause, path=self.partial, fix=f"resume with the same input, or {_START_AGAIN}")
        self._update_digest(skipped)
        if self._digest.hexdigest() != self._state.inputs:
            cause = f"has {results} for other inputs than the first {len(skipped):,} of this file"
            raise InputError(cause, path=self.partial, fix=f"resume with the same input, or {_START_AGAIN}")
        return remaining

    def _update_digest(self, rows: Iterable[Row | InputError]) -> None:
        for row in rows:
            values = str(row) if isinstance(row, InputError) else row.values
            self._digest.update(json.dumps(values, sort_keys=True, default=str).encode() + b"\n")

    def keep_portions(self, portions: Iterable[PredictedPortion]) -> Iterator[Any]:
        """The results of portions; after each portion the state is written.

        The formats that can be resumed write a result before they ask for the next one, so when a portion ends here, it
        is in the file.
        """
        for portion in portions:
            yield from portion.results
            if self._resumable:
                self._keep(portion)

    def _keep(self, portion: PredictedPortion) -> None:
        assert self._state is not None, "set by `begin`"
        self._file.flush()
        os.fsync(self._file.fileno())
        self._update_digest(portion.rows)
        state = _State(
            made_by=self._state.made_by,
            model=self._state.model,
            results=self._state.results + len(portion.results),
            bytes=self._file.seek(0, os.SEEK_END),
            inputs=self._digest.hexdigest(),
        )
        write_json(self._state_path, vars(state))
        self._state = state

    def write(self, output_format: OutputFormat, results: Iterable[Any]) -> int:
        """Write the results and give the file its name; returns how many it has. A full disk is an `InputError`."""
        written = self.done

        def counted() -> Iterator[Any]:
            nonlocal written
            for result in results:
                written += 1
                yield result

        try:
            for text in output_format.texts(counted()):
                self._start_file()
                self._file.write(text.encode("utf-8", "backslashreplace"))
            self._start_file()
            self._file.flush()
            if not self._is_device:
                os.fsync(self._file.fileno())
                rename(self.partial, self._target)
        except OSError as error:
            is_own = error.filename is None or str(error.filename).startswith(str(self.partial))
            if not is_own or (problem := disk_problem(error)) is None:
                raise
            fix = "free some space and " + ("continue with --resume" if self.done else "run the command again")
            raise InputError(problem, path=self.path, fix=fix) from None
        self._state_path.unlink(missing_ok=True)
        return written

    def _start_file(self) -> None:
        """Drop an unfinished output that is replaced, once there is a first result: bad input must not cost it."""
        if not self._begun and not self._is_device and not self.done:
            self._file.truncate(0)
            self._state_path.unlink(missing_ok=True)
        self._begun = True

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_worthless = error is not None and not self._is_device and not self.done
        if is_worthless and (self._begun or not self._state_path.exists()):
            with suppress(OSError):
                self.partial.unlink()
        with suppress(OSError):  # what cannot be written is not in the state either
            self._file.close()


def describe_maker(predictor: Predictor, tasks: Sequence[str], output_format: str, batch_tokens: int) -> dict[str, Any]:
    """What an output is made by, as far as a result depends on it, down to its last digit."""
    return {
        "task": ",".join(tasks),
        "model": _fingerprint(predictor.model.folder),
        "format": output_format,
        "batch tokens": batch_tokens,
        **predictor.made_by,
        "spanlab": __version__,
    }


def _fingerprint(folder: Path | None) -> str:
    """A SHA-256 over the files of a model folder that predictions depend on."""
    digest = hashlib.sha256()
    for path in sorted(folder.iterdir()) if folder is not None else ():
        if path.suffix in _MODEL_FILES and path.is_file():
            digest.update(f"{path.name} {sha256_of(path)}\n".encode())
    return digest.hexdigest()


def _open_locked(partial: Path, output: Path) -> BinaryIO:
    """The partial file, opened to append and locked until it is closed."""
    while True:
        file = partial.open("a+b")
        try:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:  # no such locks on this system
            return file
        except BlockingIOError:
            file.close()
            cause, fix = "another process is writing this output", "wait for it, or choose another --output"
            raise InputError(cause, path=output, fix=fix) from None
        # The process that held the lock may have given the file its final name in between.
        if partial.exists() and os.path.samestat(os.fstat(file.fileno()), partial.stat()):
            return file
        file.close()


def _read_state(path: Path) -> _State:
    damaged = InputError("not the state of an unfinished output", path=path, fix=_START_AGAIN)
    values = read_json(path, fix=_START_AGAIN)
    types = {"made_by": dict, "model": str, "results": int, "bytes": int, "inputs": str}
    if not isinstance(values, dict) or values.keys() != types.keys():
        raise damaged
    if (
        not all(type(values[name]) is kind for name, kind in types.items())
        or min(values["results"], values["bytes"]) < 0
    ):
        raise damaged
    return _State(**values)
