"""What to prepare, decided before anything is written: the sources, and the layout of their text.

The layout is what separates documents, and what a line break means inside one. Where the user has not set it, it is
detected from the beginnings of the first sources and named in the plan, so that the command line can report it. The
rules are few, because a wrong guess is easy to see and to correct by a flag: lines cut at one width are hard-wrapped;
else lines that hold about one sentence each are sentences; else each line is a paragraph.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from spanlab.corpus.prepare.byte_readers import LookAhead, open_reader
from spanlab.corpus.prepare.config import Documents, Lines, PrepareConfig
from spanlab.corpus.prepare.documents import BLANK_LINE, documents_of
from spanlab.corpus.prepare.segments import segments_of
from spanlab.corpus.prepare.sources import STDIN, Format, Source, find_sources
from spanlab.errors import InputError
from spanlab.text import sentence_spans

_SAMPLED_SOURCES = 8
_SAMPLE_BYTES = 1 << 18
_SENTENCE_END = re.compile(r"[.!?…:;。！？：；][\"'”’»)\]」』）]*\s*$")


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to prepare."""

    names: tuple[str, ...]
    file_format: Format | None
    config: PrepareConfig
    detected: tuple[str, ...]
    """The settings (`documents`, `lines`) that were detected."""
    text_bytes: int | None
    """Bytes to read; None unless the size of every source is known."""
    stdin: LookAhead | None

    def sources(self) -> Iterator[Source]:
        """The sources, in order."""
        return find_sources(self.names, self.file_format)


def plan_preparation(
    names: Sequence[str], config: PrepareConfig, *, file_format: Format | None = None, stdin: LookAhead | None = None
) -> Plan:
    """The plan for the sources that `names` stand for; a layout that `config` leaves open is detected."""
    sentence_spans("", config.language)  # an unknown language is an error now, not in a worker
    sampled: list[Source] = []
    size: int | None = 0
    text_files = 0
    for source in find_sources(names, file_format):
        if len(sampled) < _SAMPLED_SOURCES and source.size != 0:
            sampled.append(source)
        text_files += source.format == "txt"
        size = size + (source.size or 0) if size is not None and source.splittable else None
    if not sampled:
        raise InputError("nothing to read, the input is empty", path=" ".join(names) or None)
    detected = [name for name in ("documents", "lines") if getattr(config, name) is None]
    if detected:
        config = _detect_layout(sampled, config, several_files=text_files > 1, stdin=stdin)
    if not text_files and "documents" in detected:
        detected.remove("documents")  # only .txt files use it
    return Plan(
        names=tuple(names),
        file_format=file_format,
        config=config,
        detected=tuple(detected),
        text_bytes=size,
        stdin=stdin,
    )


def _detect_layout(
    sources: Sequence[Source], config: PrepareConfig, *, several_files: bool, stdin: LookAhead | None
) -> PrepareConfig:
    samples = [(source.format, _sample(source, config, stdin)) for source in sources]
    lines = config.lines or detect_lines([text for _, texts in samples for text in texts])
    plain_texts = [text for file_format, texts in samples if file_format == "txt" for text in texts]
    documents = config.documents or detect_documents(plain_texts, lines, several_files=several_files)
    return replace(config, documents=documents, lines=lines)


def _sample(source: Source, config: PrepareConfig, stdin: LookAhead | None) -> list[str]:
    """Text from the beginning of a source: of a .txt unchanged, of the others by document."""
    if source.name == STDIN:
        data = stdin.peek(_SAMPLE_BYTES) if stdin and source.format == "txt" else b""
        return [_whole_lines(data)]
    if source.format == "txt":
        reader = open_reader(source)
        try:
            return [_whole_lines(reader.read(0, _SAMPLE_BYTES))]
        finally:
            reader.close()
    sampling = replace(config, documents="file", errors="replace", segment_bytes=_SAMPLE_BYTES)
    return [text for segment in islice(segments_of(source, sampling), 1) for text in documents_of(segment, sampling)[0]]


def _whole_lines(data: bytes) -> str:
    """The text of a sample, without its last line where that is incomplete."""
    text = data.decode("utf-8", "replace")
    return text if len(data) < _SAMPLE_BYTES else text[: text.rfind("\n") + 1] or text


def detect_lines(samples: Sequence[str]) -> Lines:
    """What a line break means in the samples."""
    groups = [group.strip().split("\n") for sample in samples for group in BLANK_LINE.split(sample) if group.strip()]
    inner_lines = [line.strip() for group in groups for line in group[:-1] if line.strip()]
    if not inner_lines:
        return "paragraphs"
    lengths = np.array([len(line) for line in inner_lines])
    same_width = np.median(lengths) >= 0.7 * np.percentile(lengths, 95)
    ended = np.mean([bool(_SENTENCE_END.search(line)) for line in inner_lines])
    if same_width and ended < 0.5:
        return "wrapped"
    sentences = np.mean([len(sentence_spans(line)) for line in inner_lines[:1000]])
    return "sentences" if sentences < 1.5 else "paragraphs"


def detect_documents(samples: Sequence[str], lines: Lines, *, several_files: bool) -> Documents:
    """What a document is in .txt files with these beginnings."""
    groups = [BLANK_LINE.split(sample.strip()) for sample in samples if sample.strip()]
    has_blank_lines = any(len(sample_groups) > 1 for sample_groups in groups)
    if lines == "wrapped":
        return "file"
    if not has_blank_lines:
        return "line" if lines == "paragraphs" and not several_files else "file"
    if lines == "sentences":
        return "blank-line"
    lines_per_group = np.mean([group.count("\n") + 1 for sample_groups in groups for group in sample_groups])
    return "blank-line" if lines_per_group >= 1.5 else "file"
