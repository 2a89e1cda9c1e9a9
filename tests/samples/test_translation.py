"""The grammar of the sample translations: splits are disjoint, and agreement is that of German."""

import re

from spanlab.samples.translation import SIZES, translation_pairs


def test_splits_are_disjoint_and_always_the_same() -> None:
    splits = translation_pairs()
    assert {split: len(pairs) for split, pairs in splits.items()} == SIZES
    pairs = [pair for split in splits.values() for pair in split]
    assert len(set(pairs)) == len({english for english, _ in pairs}) == len({german for _, german in pairs})
    assert splits == translation_pairs()


def test_every_word_of_dev_and_test_is_in_train() -> None:
    splits = translation_pairs()
    for language in (0, 1):
        words = {
            split: {w for pair in pairs for w in re.findall(r"\w+", pair[language])} for split, pairs in splits.items()
        }
        assert words["dev"] | words["test"] <= words["train"]


def test_sentences_by_hand() -> None:
    pairs = {pair for split in translation_pairs().values() for pair in split}
    assert {
        ("Today the old man sees the new book in the garden.", "Heute sieht der alte Mann das neue Buch im Garten."),
        (
            "A quiet man has bought the new hats at the station.",
            "Ein ruhiger Mann hat die neuen Hüte am Bahnhof gekauft.",
        ),
        (
            "Today a young teacher sees an old picture in the garden.",
            "Heute sieht ein junger Lehrer ein altes Bild im Garten.",
        ),
        ("The teachers have bought a book at the station.", "Die Lehrer haben ein Buch am Bahnhof gekauft."),
    } <= pairs


def test_articles_and_verbs_agree() -> None:
    for english, german in (pair for split in translation_pairs().values() for pair in split):
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", english, re.IGNORECASE), english
        assert english.endswith(".")
        assert german.endswith(".")
        assert german[0].isupper()
        assert english[0].isupper()
        for wrong in ("der Frau ", "das Mann", "den Buch", "einen Tasche", "eine Apfel", "ein Tasche", "die Hut "):
            assert wrong not in german
        assert ("has " in english or "have " in english) == german.rstrip(".").split()[-1].startswith("ge")
