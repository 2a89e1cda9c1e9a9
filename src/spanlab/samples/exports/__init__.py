"""The almanac as labelled files: every task's JSON lines and the formats its field uses, one file a split."""

from spanlab.samples.exports.folder import ExportedFile, Selection, export
from spanlab.samples.exports.tasks import TASKS, files_of

__all__ = ["TASKS", "ExportedFile", "Selection", "export", "files_of"]
