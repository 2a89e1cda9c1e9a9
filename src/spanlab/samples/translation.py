"""Sample pairs for translation, English and German, from a small grammar of our own.

Nothing enters; aligned sentences leave, always the same, and no sentence is in two splits. The words are few, so that a
small model learns them in minutes, and what it must learn is what makes German German: articles and adjectives that
agree in gender, number and case, the verb that comes second, and the participle at the end.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

Pair = tuple[str, str]

SIZES: Mapping[str, int] = {"train": 1200, "dev": 100, "test": 100}
"""Pairs of each split."""


class _Noun(NamedTuple):
    english: str
    english_plural: str
    german: str
    german_plural: str
    gender: str
    """m, f or n."""


class _Verb(NamedTuple):
    english: str
    """With a plural subject; -s is added for one."""
    english_participle: str
    german_singular: str
    german_plural: str
    german_participle: str


_PEOPLE = (
    _Noun("man", "men", "Mann", "Männer", "m"),
    _Noun("woman", "women", "Frau", "Frauen", "f"),
    _Noun("child", "children", "Kind", "Kinder", "n"),
    _Noun("girl", "girls", "Mädchen", "Mädchen", "n"),
    _Noun("teacher", "teachers", "Lehrer", "Lehrer", "m"),
    _Noun("neighbour", "neighbours", "Nachbarin", "Nachbarinnen", "f"),
    _Noun("farmer", "farmers", "Bauer", "Bauern", "m"),
)
_THINGS = (
    _Noun("book", "books", "Buch", "Bücher", "n"),
    _Noun("apple", "apples", "Apfel", "Äpfel", "m"),
    _Noun("bag", "bags", "Tasche", "Taschen", "f"),
    _Noun("picture", "pictures", "Bild", "Bilder", "n"),
    _Noun("map", "maps", "Karte", "Karten", "f"),
    _Noun("hat", "hats", "Hut", "Hüte", "m"),
    _Noun("umbrella", "umbrellas", "Schirm", "Schirme", "m"),
    _Noun("lamp", "lamps", "Lampe", "Lampen", "f"),
)
_OF_PEOPLE = (("old", "alt"), ("young", "jung"), ("small", "klein"), ("friendly", "freundlich"), ("quiet", "ruhig"))
_OF_THINGS = (("new", "neu"), ("red", "rot"), ("heavy", "schwer"), ("beautiful", "schön"), ("old", "alt"))
_VERBS = (
    _Verb("see", "seen", "sieht", "sehen", "gesehen"),
    _Verb("buy", "bought", "kauft", "kaufen", "gekauft"),
    _Verb("paint", "painted", "malt", "malen", "gemalt"),
    _Verb("find", "found", "findet", "finden", "gefunden"),
    _Verb("bring", "brought", "bringt", "bringen", "gebracht"),
    _Verb("show", "shown", "zeigt", "zeigen", "gezeigt"),
)
_PLACES = (
    ("in the garden", "im Garten"),
    ("in the kitchen", "in der Küche"),
    ("at the station", "am Bahnhof"),
    ("in front of the house", "vor dem Haus"),
    ("on the bridge", "auf der Brücke"),
)
_TIMES = (("today", "heute"), ("in the evening", "am Abend"), ("on Sunday", "am Sonntag"), ("in winter", "im Winter"))

_DEFINITE = {"subject": {"m": "der", "f": "die", "n": "das"}, "object": {"m": "den", "f": "die", "n": "das"}}
_INDEFINITE = {"subject": {"m": "ein", "f": "eine", "n": "ein"}, "object": {"m": "einen", "f": "eine", "n": "ein"}}
_AFTER_DEFINITE = {"subject": {"m": "e", "f": "e", "n": "e"}, "object": {"m": "en", "f": "e", "n": "e"}}
_AFTER_INDEFINITE = {"subject": {"m": "er", "f": "e", "n": "es"}, "object": {"m": "en", "f": "e", "n": "es"}}

_CHOICES = (
    ("subject", len(_PEOPLE)),
    ("subject form", 3),
    ("subject adjective", len(_OF_PEOPLE) + 1),
    ("verb", len(_VERBS)),
    ("tense", 2),
    ("object", len(_THINGS)),
    ("object form", 3),
    ("object adjective", len(_OF_THINGS) + 1),
    ("place", len(_PLACES) + 1),
    ("time", len(_TIMES) + 2),
)
"""What a sentence is made of, and how many ways there are; one more than the table where it may be left out."""
_STRIDE = 1_000_003
"""A prime that divides no number of ways: multiples of it visit every sentence once, and neighbours are unlike."""


def translation_pairs() -> dict[str, list[Pair]]:
    """The pairs of each split."""
    sentences = _sentences()
    return {split: [next(sentences) for _ in range(size)] for split, size in SIZES.items()}


def _sentences() -> Iterator[Pair]:
    total = 1
    for _, ways in _CHOICES:
        total *= ways
    for index in range(total):
        rest, choice = index * _STRIDE % total, {}
        for name, ways in _CHOICES:
            rest, choice[name] = divmod(rest, ways)
        yield _sentence(choice)


def _sentence(choice: Mapping[str, int]) -> Pair:
    subject = _phrase(_PEOPLE[choice["subject"]], choice["subject form"], _OF_PEOPLE, choice["subject adjective"])
    thing = _phrase(_THINGS[choice["object"]], choice["object form"], _OF_THINGS, choice["object adjective"], "object")
    several, verb = choice["subject form"] == 2, _VERBS[choice["verb"]]
    english_place, german_place = _at(_PLACES, choice["place"])
    english_time, german_time = _at(_TIMES, choice["time"])
    if choice["tense"]:
        english_verb = f"{'have' if several else 'has'} {verb.english_participle}"
        german_verb, german_end = "haben" if several else "hat", verb.german_participle
    else:
        english_verb = verb.english if several else f"{verb.english}s"
        german_verb, german_end = verb.german_plural if several else verb.german_singular, ""
    english = [english_time, subject[0], english_verb, thing[0], english_place]
    # The finite verb is the second part of a German sentence, whatever the first is.
    first, second = (german_time, subject[1]) if german_time else (subject[1], "")
    german = [first, german_verb, second, thing[1], german_place, german_end]
    return _written(english), _written(german)


def _phrase(
    noun: _Noun, form: int, adjectives: tuple[tuple[str, str], ...], adjective: int, case: str = "subject"
) -> Pair:
    """Article, adjective and noun: `form` 0 is definite, 1 indefinite, 2 plural."""
    english_adjective, german_adjective = _at(adjectives, adjective)
    if form == 2:
        english = ["the", english_adjective, noun.english_plural]
        german = ["die", german_adjective and f"{german_adjective}en", noun.german_plural]
        return _joined(english), _joined(german)
    articles, endings = (_INDEFINITE, _AFTER_INDEFINITE) if form else (_DEFINITE, _AFTER_DEFINITE)
    ending = endings[case][noun.gender]
    english_words = _joined([english_adjective, noun.english])
    article = "the" if not form else "an" if english_words[0] in "aeiou" else "a"
    german = [articles[case][noun.gender], german_adjective and f"{german_adjective}{ending}", noun.german]
    return f"{article} {english_words}", _joined(german)


def _at(table: tuple[Pair, ...], index: int) -> Pair:
    """An entry, or nothing beyond the last."""
    return table[index] if index < len(table) else ("", "")


def _joined(words: list[str]) -> str:
    return " ".join(filter(None, words))


def _written(parts: list[str]) -> str:
    text = _joined(parts)
    return f"{text[0].upper()}{text[1:]}."
