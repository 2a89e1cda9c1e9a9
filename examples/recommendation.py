"""Content-based recommendation: items are ranked by the similarity of their descriptions to those of liked items.

    python examples/recommendation.py [MODEL]

Needs no ratings by other users, so it also works for a new shop and for new items.
"""

import numpy as np
from packaged_model import model_of_command_line

import spanlab

BOOKS = {
    "The Pilot's Chart": "A young pilot guides ships through a storm and loses his captain's trust.",
    "Salt and Canvas": "The log of a whaling ship: three years at sea, a mutiny, and the long way home.",
    "Lights on the Reef": "A lighthouse keeper watches for wrecks on a stormy coast and saves a crew of sailors.",
    "Bread in Forty Ways": "Recipes for sourdough, flat bread and rolls, with a chapter on flour and yeast.",
    "The Patient Oven": "How to bake with whole grain: slow dough, hot stones and crisp crusts.",
    "A Kitchen in Winter": "Soups, stews and baked roots for cold evenings, simple to cook.",
    "Proof by Night": "A mathematician finds an error in a famous theorem and hunts for a proof.",
    "The Prime Garden": "Numbers, puzzles and patterns: an introduction to the theory of primes.",
}


def recommend(liked: list[str], model: str, *, top: int = 3) -> list[tuple[str, float]]:
    """The items most similar to the liked ones, with their cosines."""
    titles = list(BOOKS)
    vectors = spanlab.load(model).encode([f"{title}. {text}" for title, text in BOOKS.items()])
    taste = vectors[[titles.index(title) for title in liked]].mean(axis=0)
    scores = vectors @ (taste / np.linalg.norm(taste))
    ranked = sorted(zip(titles, scores.tolist(), strict=True), key=lambda pair: -pair[1])
    return [pair for pair in ranked if pair[0] not in liked][:top]


def main(model: str) -> None:
    """Three readers."""
    for liked in (["The Pilot's Chart", "Salt and Canvas"], ["Bread in Forty Ways"], ["The Prime Garden"]):
        print(f"who liked {' and '.join(liked)}:")
        for title, score in recommend(liked, model):
            print(f"  {score:5.2f}  {title}")


if __name__ == "__main__":
    main(model_of_command_line())
