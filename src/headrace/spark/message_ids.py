"""Message ids, by which a stream recognizes a message that Spark publishes a second time.

Spark repeats a task that failed and a batch whose end it did not record. The stream drops a message whose
`Nats-Msg-Id` it has seen within its duplicate window, so a row must get the same id every time. Unless the
DataFrame has a column `msgId`, the id consists of the query, the batch, the partition and the row in it:

    7e1c…:42:0:1017

Query and batch are Spark's own, from its checkpoint, and survive a restart. A batch write outside of a
streaming query has no such name: its id is made when it is planned, so that repeated tasks are recognized,
but a write that is started a second time is a second write.

This works if a repeated batch has the same rows in the same order, as it has when rows come from streams and
pass through filters and projections. After a shuffle (a join, an aggregation) the order may differ: then
`msgId` must identify the row.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow
import pyarrow.compute as compute

from headrace.spark.failure import DataSourceError

if TYPE_CHECKING:
    from pyspark import TaskContext

QUERY_PROPERTY = "sql.streaming.queryId"
BATCH_PROPERTY = "streaming.sql.batchId"


@dataclass
class MessageIds:
    """Numbers the rows of one partition of one batch."""

    prefix: str
    row: int = 0

    def next(self, count: int) -> Any:
        """Ids for the next `count` rows."""
        numbers = pyarrow.array(range(self.row, self.row + count), pyarrow.int64()).cast(pyarrow.string())
        self.row += count
        return compute.binary_join_element_wise(self.prefix, numbers, ":")


def new_write_id() -> str:
    """For a batch write: a name that no other write has."""
    return uuid.uuid4().hex


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


def _task() -> TaskContext:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None, "the sink writes in tasks only"
    return context
