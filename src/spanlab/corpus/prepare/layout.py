"""How plain text is laid out: what is a document, and what a line break means inside one.

What enters is the beginning of some of the input; what leaves is a layout, detected where the user has not said it.
The rules are few and told to the user, because a wrong guess is cheap to see and a flag away from right:
lines cut at one width are hard-wrapped; else lines that hold about one sentence each are sentences; else each line is
a paragraph.
"""

import re
from collections.abc import Sequence

import numpy as np

from spanlab.corpus.prepare.config import Documents, Lines
from spanlab.text import sentence_spans

BLANK_LINE = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_SENTENCE_END = re.compile(r"[.!?…:;。！？：；][\"'”’»)\]」』）]*\s*$")


def detect_lines(samples: Sequence[str]) -> Lines:
    """What a line break means in the samples."""
    groups = [group.strip().split("\n") for sample in samples for group in BLANK_LINE.split(sample) if group.strip()]
    inner = [line.strip() for group in groups for line in group[:-1] if line.strip()]
    if not inner:
        return "paragraphs"
    lengths = np.array([len(line) for line in inner])
    even = np.median(lengths) >= 0.7 * np.percentile(lengths, 95)
    ended = np.mean([bool(_SENTENCE_END.search(line)) for line in inner])
    if even and ended < 0.5:
        return "wrapped"
    sentences = np.mean([len(sentence_spans(line)) for line in inner[:1000]])
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
    lines_a_group = np.mean([group.count("\n") + 1 for sample_groups in groups for group in sample_groups])
    return "blank-line" if lines_a_group >= 1.5 else "file"
