"""What each task does in a line, for help texts, which must not import the tasks themselves."""

from collections.abc import Mapping

DESCRIPTIONS: Mapping[str, str] = {
    "classification": "a label, or several, for a text",
    "similarity": "a score or a label for two texts",
    "ner": "the entities of a text, flat or nested",
    "qa": "the answer to a question in a text, or that there is none",
    "summarisation": "the most important sentences of a text",
    "generation": "a text from a text, such as a translation: a causal model, or a decoder over any encoder",
    "coref": "the mentions of a text that refer to the same thing",
    "relation": "the relations between the entities of a text",
    "multitask": "several of these on one encoder, from a YAML list",
}
