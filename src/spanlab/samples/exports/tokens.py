"""Tokens for the formats that are written by the token.

English is cut the way the field's column files are: clitics and hyphens apart, numbers and abbreviations whole. In
Chinese and Korean every character is a token: entities end inside an eojeol, before its particle, and a segmenter
would have to guess what a reader of the file can decide.
"""

import re

from spanlab.errors import InputError
from spanlab.samples.passage import Mention, Passage, Sentence

ENGLISH = re.compile(
    r"\d+(?:[.,:]\d+)+"  # 3.5, 12,000, 9:30
    r"|(?:[A-Za-z]\.){2,}"  # a.m., U.S.
    r"|[^\W_]+?(?=n't\b)|n't\b"  # do n't
    r"|'(?:s|m|d|re|ve|ll)\b"  # Ada 's
    r"|[^\W_]+(?:'(?!(?:s|m|d|re|ve|ll)\b)[^\W_]+)*"  # O'Brien
    r"|\S"
)
CHARACTER = re.compile(r"\S")

Span = tuple[int, int]


def tokenize(passage: Passage, sentence: Sentence) -> list[Span]:
    """The tokens of a sentence, as offsets of the passage's text."""
    pattern = ENGLISH if passage.language == "en" else CHARACTER
    return [found.span() for found in pattern.finditer(passage.text, sentence.start, sentence.end)]


def token_range(passage: Passage, tokens: list[Span], mention: Mention) -> Span:
    """The numbers of the first token of a mention and of its last."""
    starts, ends = [start for start, _ in tokens], [end for _, end in tokens]
    if mention.start not in starts or mention.end not in ends:
        cause = f"'{passage.span(mention)}' starts or ends inside a token"
        raise InputError(f"{passage.id}: {cause}", fix="mark whole words, or export JSON lines")
    return starts.index(mention.start), ends.index(mention.end)
