"""What the reader finds in a short text: answers, entities and coreference. Nothing is trained.

A text enters, the one below or the beginning of the user's; a `Reading` leaves, which the terminal and the report draw.
"""

from pathlib import Path

from spanlab.atomic_io import write_json
from spanlab.config import Source, from_mapping, to_mapping
from spanlab.errors import InputError
from spanlab.inference.load import load
from spanlab.inference.predictor import Predictor
from spanlab.models import list_models
from spanlab.models.minilm import find_minilm
from spanlab.quickstart.folder import QuickstartFolder
from spanlab.quickstart.plan import READING
from spanlab.quickstart.results import Answer, Reading, Span
from spanlab.strict_parsing import read_json
from spanlab.text.plain_files import open_plain_files
from spanlab.text.sentences import sentence_spans

STORY = (
    "In March 1931 Ruth Amsel sold her bakery in Lübeck and bought a small printing press for 640 marks. Her brother "
    "Jonas thought she had lost her mind, but he lent her 200 marks all the same. Their first book, The Salt Road, "
    "appeared in Hamburg on 4 May 1932. It sold 1,900 copies before Christmas. Two years later Jonas left the firm and "
    "sailed to Montevideo, where he opened a bookshop. Ruth kept the press. She ran it alone until 1958."
)
QUESTIONS = (
    "What did the printing press cost?",
    "When did their first book appear?",
    "Where did Jonas open a bookshop?",
)
MOST_WORDS = 120
"""Of the user's text."""
_ENOUGH_CHARACTERS = 20 * MOST_WORDS


def read_short_text(folder: QuickstartFolder) -> tuple[Reading | None, str]:
    """What the reader finds; or None, and why the reader is not here."""
    name, path = folder.settings.reader, folder.path / READING
    if path.is_file():
        reading = from_mapping(Reading, read_json(path), Source(path=str(path)))
    else:
        place, problem = (None, "it was not requested") if name is None else find_reader(name)
        if place is None:
            return None, problem
        with folder.timed(READING):
            folder.events.say(f"loading {name}")
            reading = read(load(place), folder.settings.text)
            write_json(path, to_mapping(reading))
    folder.events.read(reading)
    return reading, ""


def find_reader(name: str) -> tuple[str | None, str]:
    """The model folder of a name in the box, or of a path; or None and the problem."""
    model = next((model for model in list_models() if model.name == name), None)
    if model is None:
        return (name, "") if (Path(name) / "config.json").is_file() else (None, f"this SpanLab has no model '{name}'")
    if model.encoder_of is not None:
        base, problem = find_minilm()
        if base is None:
            return None, problem
    # By its folder: a folder of that name in the working directory is not meant.
    return (str(model.folder), "") if model.folder is not None else (None, "its weights are missing")


def read(model: Predictor, files: tuple[str, ...]) -> Reading:
    """The results of those of the three tasks that the model has; only the text of SpanLab has questions."""
    text = beginning(files) if files else STORY
    answers: tuple[Answer, ...] = ()
    entities: tuple[Span, ...] = ()
    clusters: tuple[tuple[Span, ...], ...] = ()
    if "qa" in model.tasks and not files:
        results = model.predict([(question, text) for question in QUESTIONS], task="qa")
        found = zip(QUESTIONS, results, strict=True)
        answers = tuple(Answer(question=question, text=result.answer) for question, result in found)
    if "entities" in model.tasks:
        (result,) = model.predict([text], task="entities")
        entities = tuple(Span(start=span.start, end=span.end, label=span.label) for span in result.spans)
    if "coref" in model.tasks:
        (result,) = model.predict([text], task="coref")
        # A single mention is no coreference.
        linked = [cluster for cluster in result.clusters if len(cluster) > 1]
        clusters = tuple(tuple(Span(start=start, end=end) for start, end in cluster) for cluster in linked)
    return Reading(text=text, answers=answers, entities=entities, clusters=clusters)


def beginning(files: tuple[str, ...]) -> str:
    """The first sentences of the files, up to `MOST_WORDS` words, as one line."""
    text = ""
    for block in open_plain_files(files):
        text += block
        if len(text) >= _ENOUGH_CHARACTERS:
            break
    text = " ".join(text[:_ENOUGH_CHARACTERS].split())
    if not text:
        raise InputError("has no text", path=files[0], fix="leave it out")
    sentences = [text[start:end] for start, end in sentence_spans(text)]
    words = sentences[0].split()[:MOST_WORDS]
    for sentence in sentences[1:]:
        if len(words) + len(sentence.split()) > MOST_WORDS:
            break
        words += sentence.split()
    return " ".join(words)
