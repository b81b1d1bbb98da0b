"""Message ids, by which a stream recognizes a message that Spark publishes a second time.

Spark repeats a task that failed and a batch whose end it did not record. The stream drops a message whose
`Nats-Msg-Id` it has seen within its duplicate window. So a row must get the same id every time, and no two
rows the same one. Unless the DataFrame has a column `msgId`, there are two kinds:

    7e1c…:42:0:ORDERS:1017     the row's identity: its columns `stream` and `seq`
    7e1c…:42:0:ORDERS:1017+2   the third row of this task that was made from this message (by explode, say)
    7e1c…:42:0:1017            the row's place, if it has no identity

An identity stays the same if messages are deleted from the source before the batch is repeated. Places shift:
a row that was not stored yet then gets the id of one that was, and is lost. So places are used only if there
is nothing else, with a warning.

Both follow query, batch and partition. Query and batch are Spark's own, from its checkpoint, and survive a
restart. A batch write outside of a streaming query has no such name: its id is created when it is planned, so
that repeated tasks are recognized, but a write that is started a second time is a second write.

Rejected: `stream:seq` alone. Two queries that write messages of one stream to the same target, a join that
finds matches for a message in several batches, a union of two selections, a stream that was re-created: each
has different rows with the same identity, all but one of which the target would drop. Within a task they are
counted: rows of one message arrive in the same order every time, unless a shuffle mixes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy
import pyarrow
import pyarrow.compute as compute

from headrace.spark.failure import DataSourceError
from headrace.spark.notice import warn
from headrace.spark.writing.occurrences import Occurrences

if TYPE_CHECKING:
    from pyspark import TaskContext

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"

SOME_BY_PLACE = (
    "rows whose `stream` or `seq` is NULL are identified by their place: if Spark repeats a task or a batch, "
    "and it has other rows by then or another order, rows can be lost or duplicated; "
    "add a column `msgId` that identifies the row"
)


@dataclass
class MessageIds:
    """Names the rows of one partition of one batch."""

    prefix: str
    rows: int = 0
    """How many rows were named by their place."""
    _seen: dict[str, Occurrences] = field(default_factory=dict)

    def of_places(self, count: int) -> Any:
        """Ids for the next `count` rows."""
        numbers = pyarrow.array(numpy.arange(self.rows, self.rows + count)).cast(pyarrow.string())
        self.rows += count
        return compute.binary_join_element_wise(self.prefix, numbers, ":")

    def of_identities(self, streams: Any, seqs: Any) -> Any:
        """Ids for rows with these identities; by their place for those without (of an outer join)."""
        known = compute.and_(streams.is_valid(), seqs.is_valid())
        if not known.false_count:
            return self._of_known(streams, seqs)
        if not self.rows:
            warn(SOME_BY_PLACE)
        return compute.if_else(known, *self._of_both_kinds(streams, seqs, known))

    def _of_both_kinds(self, streams: Any, seqs: Any, known: Any) -> tuple[Any, Any]:
        """The ids of both kinds, each at the positions of its rows."""
        named = self._of_known(streams.filter(known), seqs.filter(known))
        placed = self.of_places(known.false_count)
        nothing = pyarrow.nulls(len(known), pyarrow.string())
        return (
            compute.replace_with_mask(nothing, known, named),
            compute.replace_with_mask(nothing, compute.invert(known), placed),
        )

    def _of_known(self, streams: Any, seqs: Any) -> Any:
        ids = compute.binary_join_element_wise(self.prefix, streams, seqs.cast(pyarrow.string()), ":")
        repeated = self._occurrences(streams, seqs)
        if repeated is None:
            return ids
        numbered = compute.binary_join_element_wise(ids, repeated.cast(pyarrow.string()), "+")
        return compute.if_else(compute.equal(repeated, 0), ids, numbered)

    def _occurrences(self, streams: Any, seqs: Any) -> Any | None:
        """How many rows with the same identity came before each; None if there are none for any."""
        names = streams.dictionary_encode()
        if len(names.dictionary) == 1:
            numbers = self._count(names.dictionary[0].as_py(), seqs)
            return None if numbers is None else pyarrow.array(numbers, pyarrow.int64())
        found = None
        for index, name in enumerate(names.dictionary.to_pylist()):
            rows = compute.equal(names.indices, index)
            numbers = self._count(name, seqs.filter(rows))
            if numbers is not None:
                found = (
                    pyarrow.repeat(pyarrow.scalar(0, pyarrow.int64()), len(seqs)) if found is None else found
                )
                found = compute.replace_with_mask(found, rows, pyarrow.array(numbers, pyarrow.int64()))
        return found

    def _count(self, stream: str, seqs: Any) -> Any | None:
        if stream not in self._seen:
            self._seen[stream] = Occurrences()
        return self._seen[stream].number(seqs.to_numpy(zero_copy_only=False))


def ids_of_write(write_id: str) -> MessageIds:
    """For the task of a batch write that runs in this process.

    Inside `foreachBatch` there are a query and a batch, too, but one batch may be written several times, to
    several subjects: named by the batch alone, the second write would look like a repetition of the first.
    """
    context = _task()
    return MessageIds(f"{write_id}:{context.partitionId()}")


def ids_of_batch() -> MessageIds:
    """For the task of a streaming query that runs in this process.

    Where Spark keeps the names is not documented: if they are no longer there, nothing may be written,
    because it would not be recognized when it is written again.
    """
    context = _task()
    query, batch = context.getLocalProperty(QUERY_PROPERTY), context.getLocalProperty(BATCH_PROPERTY)
    if not query or not batch:
        raise DataSourceError(
            "this Spark does not tell a sink which query and batch it writes",
            hint="give the DataFrame a column `msgId`",
        )
    return MessageIds(f"{query}:{batch}:{context.partitionId()}")


def current_batch() -> int:
    """The number of the batch whose task runs in this process; -1 outside of a streaming query."""
    return int(_task().getLocalProperty(BATCH_PROPERTY) or -1)


def _task() -> TaskContext:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "the sink writes in tasks only"
    return context
