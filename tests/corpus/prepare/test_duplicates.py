import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spanlab.corpus.prepare import writer
from spanlab.corpus.prepare.writer import SeenDocuments

# Digests with zeros at the end and at the beginning: numpy must not take them for equal.
DIGESTS = st.sampled_from([bytes([k]) + bytes(15) for k in range(20)] + [bytes(15) + bytes([k]) for k in range(1, 20)])


@given(st.lists(st.lists(DIGESTS, max_size=12), max_size=30), st.integers(1, 40))
def test_the_first_of_equal_documents_stays(calls: list[list[bytes]], longest_run: int) -> None:
    seen, known = SeenDocuments(), set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_LONGEST_RUN", longest_run)
        for digests in calls:
            fresh = seen.add(np.array(digests, "S16"))
            expected = []
            for digest in digests:
                expected.append(digest not in known)
                known.add(digest)
            assert fresh.tolist() == expected
    assert len(seen) == len(known)


def test_memory_is_sixteen_bytes_a_document() -> None:
    seen = SeenDocuments()
    generator = np.random.default_rng(0)
    for _ in range(50):
        assert seen.add(np.frombuffer(generator.bytes(16 * 1000), "S16")).all()
    assert sum(run.nbytes for run in seen._runs) == 16 * 50_000
    assert len(seen._runs) < 20
