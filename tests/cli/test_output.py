"""What commands print for programs."""

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from spanlab.cli.output import to_json


def test_numbers_have_the_digits_that_mean_something() -> None:
    given = {"score": 0.12345678901234, "small": [1.23456789e-9, (0.5, -12345678.9)], "count": 123456789, "there": True}
    told = '{"score": 0.123457, "small": [1.23457e-09, [0.5, -12345700.0]], "count": 123456789, "there": true}'
    assert to_json(given) == told
    assert to_json({"text": "0.12345678 é"}) == '{"text": "0.12345678 é"}'


@given(st.floats(-1e30, 1e30, allow_subnormal=False))
def test_rounding_is_close_and_happens_once(value: float) -> None:
    told = to_json(value)
    assert math.isclose(json.loads(told), value, rel_tol=1e-5)
    assert to_json(json.loads(told)) == told


def test_what_is_no_number_stays_so() -> None:
    assert to_json([math.nan, math.inf]) == "[NaN, Infinity]"
