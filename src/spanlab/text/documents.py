"""A document: the user's own string, its name, and sentences as spans of its characters."""

from dataclasses import dataclass

from spanlab.text.sentences import sentence_spans


@dataclass(frozen=True, kw_only=True)
class Document:
    """A text with an id. Every offset anywhere is a character position in `text`, end exclusive."""

    id: str
    text: str
    given_sentences: tuple[tuple[int, int], ...] | None = None
    """Sentence spans that came with the text (one sentence a line, for instance); None: to be found by rule."""

    def sentences(self, language: str | None = None) -> list[tuple[int, int]]:
        """The sentence spans: those given, else those of the rules for `language` (None: told from the script)."""
        if self.given_sentences is not None:
            return list(self.given_sentences)
        return sentence_spans(self.text, language)
