"""Text rewritten so that it can be understood sentence by sentence: pronouns replaced by what they refer to.

What enters is a text and its clusters; what leaves is the text in which every pronoun of a cluster that has a name, or
at least a noun, is replaced by it. A possessive takes an apostrophe. Mentions that are no pronouns stay as they are, so
nothing is lost. Pronouns are known for English, Chinese and Korean.
"""

from collections import Counter
from collections.abc import Sequence

Range = tuple[int, int]

_POSSESSIVE = frozenset(["my", "your", "his", "her", "its", "our", "their", "mine", "yours", "hers", "ours", "theirs"])
_ENGLISH = frozenset(
    [
        *("i", "me", "myself", "you", "yourself", "yourselves", "he", "him", "himself", "she", "herself", "it"),
        *("itself", "we", "us", "ourselves", "they", "them", "themselves", "who", "whom", "thou", "thee"),
    ]
)
_EASTERN = frozenset(
    ["他", "她", "它", "他们", "她们", "它们", "我", "我们", "你", "你们", "그", "그녀", "그들", "그것", "나", "우리"]
)
_PRONOUNS = _ENGLISH | _POSSESSIVE | _EASTERN


def is_pronoun(text: str) -> bool:
    """Whether a mention is a pronoun and no more."""
    return text.lower() in _PRONOUNS


def resolve_pronouns(text: str, clusters: Sequence[Sequence[Range]]) -> str:
    """The text with its pronouns replaced."""
    changes = []
    for cluster in clusters:
        name = representative([text[start:end] for start, end in cluster])
        if name is not None:
            changes += [(start, end, name) for start, end in cluster if is_pronoun(text[start:end])]
    parts, place = [], 0
    for start, end, name in sorted(changes):
        if start >= place:
            parts += [text[place:start], _in_place_of(text, start, end, name)]
            place = end
    return "".join([*parts, text[place:]])


def representative(mentions: Sequence[str]) -> str | None:
    """The name that stands for a cluster: the most frequent capitalised mention, else the first that is no pronoun."""
    nouns = [mention for mention in mentions if not is_pronoun(mention)]
    names = Counter(mention for mention in nouns if mention[:1].isupper() and mention.split()[-1][:1].isupper())
    if names:
        return names.most_common(1)[0][0]
    return nouns[0] if nouns else None


def _in_place_of(text: str, start: int, end: int, name: str) -> str:
    pronoun = text[start:end].lower()
    if pronoun not in _POSSESSIVE or (pronoun == "her" and not _noun_follows(text, end)):
        return name
    return name + ("'" if name.endswith("s") else "'s")


def _noun_follows(text: str, place: int) -> bool:
    """Whether `her` owns something: another word stands right after it."""
    following = text[place : place + 2]
    return len(following) == 2 and following[0] == " " and following[1].isalpha()
