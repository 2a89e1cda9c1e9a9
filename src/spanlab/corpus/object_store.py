"""Files on object storage, by URL: `s3://bucket/name` (s3fs), and whatever else fsspec has a file system for.

What enters is URLs; what leaves is bytes, sizes and listings, and errors in one line. An object store has no rename and
no locks: an object is there whole or not at all, and nothing else is promised. What is built on it (`remote_corpus`)
writes its manifest last, and never changes an object that a manifest names.
"""

import hashlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from typing_extensions import override

from spanlab.atomic_io import disk_problem
from spanlab.errors import InputError, MissingExtraError, SpanlabError

_URL = re.compile(r"[a-z][a-z0-9+.-]+://")
CHUNK = 1 << 22


def is_url(name: str) -> bool:
    """Whether a name is a URL, not a path."""
    return _URL.match(name) is not None


class RemoteFolder:
    """The objects whose names begin with a URL."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/")
        self._files, self._root = _file_system(self.url)
        self._root = self._root.rstrip("/")

    def url_of(self, name: str) -> str:
        """The URL of an object, for messages."""
        return f"{self.url}/{name}"

    def sizes(self) -> dict[str, int]:
        """The bytes of every object, by its name in the folder."""
        with readable_errors(self.url):
            self._files.invalidate_cache()
            found = self._files.find(self._root, detail=True)
        return {
            path.removeprefix(self._root).lstrip("/"): int(info["size"] or 0)
            for path, info in found.items()
            if path.startswith(f"{self._root}/")
        }

    def key(self, name: str) -> str:
        """A text that changes when the object does; empty where there is none."""
        with readable_errors(self.url_of(name)):
            self._files.invalidate_cache()
            path = f"{self._root}/{name}"
            return str(self._files.ukey(path)) if self._files.exists(path) else ""

    def read(self, name: str) -> bytes:
        """A whole object; a FileNotFoundError where there is none, or no such bucket."""
        with readable_errors(self.url_of(name), missing=True):
            return bytes(self._files.cat_file(f"{self._root}/{name}"))

    def chunks(self, name: str) -> Iterator[bytes]:
        """An object from front to back."""
        with readable_errors(self.url_of(name)), self._files.open(f"{self._root}/{name}", "rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk

    def write(self, name: str, data: bytes) -> None:
        """Write a small object."""
        with readable_errors(self.url_of(name)):
            self._files.pipe_file(f"{self._root}/{name}", data)

    def put(self, path: Path, name: str) -> None:
        """Copy a file there; the object appears when all of it has arrived."""
        with readable_errors(self.url_of(name)):
            self._files.put_file(str(path), f"{self._root}/{name}")

    def remove(self, name: str) -> None:
        """Remove an object."""
        with readable_errors(self.url_of(name)):
            self._files.rm_file(f"{self._root}/{name}")


# Single objects: text to be prepared.


def open_object(url: str) -> IO[bytes]:
    """An object, with random access."""
    files, path = _file_system(url)
    with readable_errors(url):
        return cast("IO[bytes]", io.BufferedReader(_Object(url, files.open(path, "rb")), 1 << 20))


def list_objects(pattern: str) -> Iterator[tuple[str, int | None, int]]:
    """(URL, bytes, stamp) of an object, of the objects below a URL or those that match a pattern, by name.

    The stamp changes when the object does.
    """
    files, path = _file_system(pattern)
    with readable_errors(pattern):
        files.invalidate_cache()
        if any(mark in pattern for mark in "*["):
            found = {name: info for name, info in files.glob(path, detail=True).items() if info["type"] == "file"}
        elif files.isfile(path):
            found = {path: files.info(path)}
        else:
            found = files.find(path, detail=True)
        urls = {name: str(files.unstrip_protocol(name)) for name in sorted(found)}
    for name, url in urls.items():
        yield url, found[name]["size"], _stamp(found[name])


def _stamp(info: dict[str, Any]) -> int:
    known = next((info[key] for key in ("ETag", "etag", "mtime", "LastModified", "created") if info.get(key)), None)
    return int.from_bytes(hashlib.blake2b(str(known).encode(), digest_size=7).digest(), "little")


class _Object(io.RawIOBase):
    """An object whose errors, also those of later reads, are readable."""

    def __init__(self, url: str, file: Any) -> None:  # noqa: ANN401 (a file of fsspec's)
        self._url, self._file = url, file

    @override
    def readable(self) -> bool:
        return True

    @override
    def seekable(self) -> bool:
        return True

    @override
    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    @override
    def tell(self) -> int:
        return int(self._file.tell())

    def readinto(self, buffer: Any) -> int:  # noqa: ANN401 (a writable buffer)
        with readable_errors(self._url):
            data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    @override
    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _file_system(url: str) -> tuple[Any, str]:
    """The file system for a URL, and the path within it."""
    with readable_errors(url):
        from fsspec.core import url_to_fs

        options = {"auto_mkdir": True} if url.startswith(("file://", "local://")) else {}
        files, path = url_to_fs(url, **options)
        return files, str(path)


@contextmanager
def readable_errors(url: str, *, missing: bool = False) -> Iterator[None]:
    """Turn what file systems raise into errors of one line; with `missing`, a FileNotFoundError passes."""
    try:
        yield
    except SpanlabError:
        raise
    except ImportError as error:
        if url.startswith("s3"):
            raise MissingExtraError("s3", url) from None
        raise InputError(f"its file system is not installed ({error})", path=url) from None
    except FileNotFoundError:
        if missing:
            raise
        raise InputError("no such bucket or object", path=url, fix="check the URL") from None
    except PermissionError as error:
        raise InputError(
            f"access is denied ({error})", path=url, fix="check the credentials and their rights"
        ) from None
    except Exception as error:  # file systems raise errors of their own and of the libraries below them
        if isinstance(error, OSError) and disk_problem(error) is not None:
            raise  # this machine's disk, while an object is copied to it
        raise _unreadable(url, error) from None


def _unreadable(url: str, error: Exception) -> InputError:
    if "credentials" in f"{type(error).__name__} {error}".lower():
        fix = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or what else the store asks for"
        return InputError(f"no credentials ({error})", path=url, fix=fix)
    return InputError(f"cannot be reached ({str(error) or type(error).__name__})", path=url)
