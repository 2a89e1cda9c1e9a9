"""Pronouns: their gender, and a text in which they are replaced by what they refer to."""

from collections import Counter
from collections.abc import Sequence

_MASCULINE = frozenset(["he", "him", "his", "himself"])
_FEMININE = frozenset(["she", "her", "hers", "herself"])
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


def gender(pronoun: str) -> str | None:
    """`masculine`, `feminine`, or None for any other word."""
    word = pronoun.lower()
    return "masculine" if word in _MASCULINE else "feminine" if word in _FEMININE else None


def resolve_pronouns(text: str, clusters: Sequence[Sequence[tuple[int, int]]]) -> str:
    """The text with the pronouns of clusters, given as starts and ends, replaced by the cluster's representative."""
    replacements = []
    for cluster in clusters:
        name = representative([text[start:end] for start, end in cluster])
        if name is not None:
            replacements += [(start, end, name) for start, end in cluster if is_pronoun(text[start:end])]
    parts, position = [], 0
    for start, end, name in sorted(replacements):
        if start >= position:
            parts += [text[position:start], _replacement(text, start, end, name)]
            position = end
    return "".join([*parts, text[position:]])


def representative(mentions: Sequence[str]) -> str | None:
    """The most frequent capitalised mention of a cluster, else the first that is not a pronoun."""
    nouns = [mention for mention in mentions if not is_pronoun(mention)]
    names = Counter(mention for mention in nouns if mention[:1].isupper() and mention.split()[-1][:1].isupper())
    if names:
        return names.most_common(1)[0][0]
    return nouns[0] if nouns else None


def is_pronoun(mention: str) -> bool:
    """Whether a mention is a pronoun, of any person."""
    return mention.lower() in _PRONOUNS


def _replacement(text: str, start: int, end: int, name: str) -> str:
    pronoun = text[start:end].lower()
    if pronoun not in _POSSESSIVE or (pronoun == "her" and not _noun_follows(text, end)):
        return name
    return name + ("'" if name.endswith("s") else "'s")


def _noun_follows(text: str, position: int) -> bool:
    """Whether `her` is possessive: another word follows directly."""
    following = text[position : position + 2]
    return len(following) == 2 and following[0] == " " and following[1].isalpha()
