"""Documents met before, by 16-byte fingerprints.

The fingerprints lie in sorted runs, each at least twice as long as the next, so that a run is merged only a few times
and memory is 16 bytes a document. Runs stop growing at a fixed length; a merge needs its own length a second time,
and never more. Two different documents share a fingerprint with probability 2⁻¹²⁸: that is taken as never.
"""

import numpy as np
from numpy.typing import NDArray

Digests = NDArray[np.bytes_]
_LONGEST_RUN = 1 << 24


class SeenDocuments:
    """Tells which documents are new, in the order in which they are asked about."""

    def __init__(self) -> None:
        self._runs: list[Digests] = []

    def __len__(self) -> int:
        return sum(len(run) for run in self._runs)

    def add(self, digests: Digests) -> NDArray[np.bool_]:
        """(D,) True for documents that neither an earlier call nor an earlier place of this one held; all are kept."""
        distinct, firsts = np.unique(digests, return_index=True)
        known = np.zeros(len(distinct), np.bool_)
        for run in self._runs:
            places = np.minimum(np.searchsorted(run, distinct), len(run) - 1)
            known |= run[places] == distinct
        fresh = np.zeros(len(digests), np.bool_)
        fresh[firsts[~known]] = True
        if not known.all():
            self._keep(distinct[~known])
        return fresh

    def _keep(self, run: Digests) -> None:
        while self._runs and len(self._runs[-1]) < 2 * len(run) and len(self._runs[-1]) < _LONGEST_RUN:
            run = np.concatenate((self._runs.pop(), run))
            run.sort(kind="stable")  # two sorted runs: a merge
        self._runs.append(run)
