"""The room's face: every name leads somewhere."""

import spanlab.metrics


def test_every_name_of_the_room_is_there() -> None:
    assert sorted(spanlab.metrics.__all__) == dir(spanlab.metrics)
    for name in spanlab.metrics.__all__:
        assert getattr(spanlab.metrics, name).__module__.startswith("spanlab.metrics.")
