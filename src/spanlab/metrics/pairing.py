"""Gold and predicted things side by side: as many of one as of the other, and at least one."""

from collections.abc import Sized

from spanlab.errors import InputError


def check_paired(gold: Sized, predicted: Sized, what: str) -> None:
    """Refuse to score lists of `what` that do not go together, or nothing at all."""
    if len(gold) != len(predicted):
        raise InputError(
            f"{len(gold)} gold {what} and {len(predicted)} predicted",
            fix="give one prediction for each, in the same order",
        )
    if not len(gold):
        raise InputError(f"there are no {what} to score")
