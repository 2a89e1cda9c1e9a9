"""The almanac as labelled files: every task's JSON lines and the formats its field uses, one file a split."""

from spanlab.text.almanac.exports.folder import ExportedFile, Selection, export
from spanlab.text.almanac.exports.tasks import TASKS, files_of

__all__ = ["TASKS", "ExportedFile", "Selection", "export", "files_of"]
