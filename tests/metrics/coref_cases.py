"""The cases of the reference coreference scorer and the scores that its authors worked out by hand.

Each letter is a mention, each word a cluster; scores are (recall, precision). LEA's are those that its authors added.
`mention` follows from the letters. Where a score is missing the authors gave none.
"""

from dataclasses import dataclass
from fractions import Fraction

Score = tuple[Fraction, Fraction]


@dataclass(frozen=True, kw_only=True)
class Case:
    key: str
    response: str
    expected: dict[str, Score]


def _case(key: str, response: str, **expected: str) -> Case:
    scores = {name: (Fraction(pair.split()[0]), Fraction(pair.split()[1])) for name, pair in expected.items()}
    return Case(key=key, response=response, expected=scores)


_A, _M, _N, _D = "a bc def", "abcdef", "a b c d e f", "12345 67 89ABC"
_DUPLICATE = {"muc": "1/3 1/3", "b3": "5/9 17/42", "ceafe": "11/15 11/20", "lea": "1/2 2/7", "mention": "4/6 4/7"}

# TC-A-7, 8 and 9 repeat the mention b in the response, which is written here as it counts: once.
CASES = {
    "TC-A-1": _case(_A, "a bc def", muc="1 1", b3="1 1", ceafe="1 1", lea="1 1", mention="1 1"),
    "TC-A-2": _case(_A, "a de", muc="1/3 1", b3="7/18 1", ceafe="3/5 9/10", lea="1/3 1", mention="3/6 1"),
    "TC-A-3": _case(_A, "a bcx defy z", muc="1 3/5", b3="1 55/108", ceafe="31/35 93/140", lea="1 4/9", mention="1 6/9"),
    "TC-A-4": _case(_A, "a bcx dy z", **_DUPLICATE),
    "TC-A-5": _case(
        _A, "a bcxB dy z", muc="1/3 1/4", b3="5/9 5/16", ceafe="31/45 31/60", lea="1/2 5/24", mention="4/6 4/8"
    ),
    "TC-A-6": _case(
        _A, "a bcx dy Bz", muc="1/3 1/4", b3="5/9 17/48", ceafe="11/15 11/20", lea="1/2 1/4", mention="4/6 4/8"
    ),
    "TC-A-7": _case(_A, "a bcx dy z", **_DUPLICATE),
    "TC-A-8": _case(_A, "a bcx dy z", **_DUPLICATE),
    "TC-A-9": _case(_A, "a bcx dy z", **_DUPLICATE),
    "TC-A-10": _case(_A, "a b c d e f", muc="0 0", b3="3/6 1", lea="1/6 1/6", mention="1 1"),
    "TC-A-11": _case(_A, "abcdef", muc="1 3/5", b3="1 7/18", lea="5/6 4/15", mention="1 1"),
    "TC-A-12": _case(_A, "a x y c d e z", muc="0 0", b3="13/36 4/7", lea="1/6 1/7", mention="4/6 4/7"),
    "TC-A-13": _case(_A, "axycdez", muc="1/3 1/6", b3="17/36 6/49", lea="1/6 1/21", mention="4/6 4/7"),
    "TC-B-1": _case("ab cde", "bcx de", lea="1/5 2/5", mention="4/5 4/5"),
    "TC-C-1": _case("ab cde fg", "bcx de fg", lea="3/7 4/7", mention="6/7 6/7"),
    "TC-D-1": _case(_D, "12345 6789ABC", muc="1 9/10", b3="1 16/21", lea="1 13/18", mention="1 1"),
    "TC-E-1": _case(_D, "1234589ABC 67", muc="1 9/10", b3="1 7/12", lea="1 29/54", mention="1 1"),
    "TC-F-1": _case("ABCD", "AB CD", muc="2/3 1", lea="1/3 1", mention="1 1"),
    "TC-G-1": _case("AB CD", "ABCD", muc="1 2/3", lea="1 1/3", mention="1 1"),
    "TC-H-1": _case("ABCD", "ABCD", muc="1 1", lea="1 1", mention="1 1"),
    "TC-I-1": _case("ABCD", "AB CD", muc="2/3 1", lea="1/3 1", mention="1 1"),
    "TC-J-1": _case("ABC", "AC", muc="1/2 1", lea="1/3 1", mention="2/3 1"),
    "TC-K-1": _case("BCDEGHJ", "ABC DEF GHI", muc="3/6 3/6", lea="1/7 1/3", mention="6/7 6/9"),
    "TC-L-1": _case("ABC DEFG", "AB CD FGH", muc="2/5 2/4", lea="5/21 3/7", mention="6/7 6/7"),
    "TC-M-1": _case(_M, "abcdef", muc="1 1", b3="1 1", ceafe="1 1", lea="1 1", mention="1 1"),
    "TC-M-2": _case(_M, "a b c d e f", muc="0 0", lea="0 0", mention="1 1"),
    "TC-M-3": _case(_M, "ab cde f", lea="4/15 5/6", mention="1 1"),
    "TC-M-4": _case(_M, "abcxyz", lea="1/5 1/5", mention="1/2 1/2"),
    "TC-M-5": _case(_M, "a b c x y z", muc="0 0", lea="0 0", mention="1/2 1/2"),
    "TC-M-6": _case(_M, "ab cxy z", lea="1/15 1/3", mention="1/2 1/2"),
    "TC-N-1": _case(_N, "a b c d e f", muc="0 0", b3="1 1", ceafe="1 1", lea="1 1", mention="1 1"),
    "TC-N-2": _case(_N, "abcdef", lea="0 0", mention="1 1"),
    "TC-N-3": _case(_N, "ab cde f", lea="1/6 1/6", mention="1 1"),
    "TC-N-4": _case(_N, "a b c x y z", muc="0 0", lea="1/2 1/2", mention="1/2 1/2"),
    "TC-N-5": _case(_N, "abcxyz", lea="0 0", mention="1/2 1/2"),
    "TC-N-6": _case(_N, "ab cxy z", lea="0 0", mention="1/2 1/2"),
}
