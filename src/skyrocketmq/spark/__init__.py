"""Topics and stores as Spark DataFrames (extra `[spark]`), through Spark's Python data sources: no JAR.

A map of the package, in reading order:

    sessions    a Spark session with our formats; `java` finds the Java for it
    source      `format("rocketmq")`: batch reads
    stream      the same as a stream
    sink        writing, batch and stream; `sending` is what its tasks do, `once` keeps them from doing it twice,
                `packing` makes many rows into messages at once, `choosing` says to which queues they go
    options     texts to typed values
    places      earliest, latest, offsets and times; JSON and back
    planning    which ranges, how many tasks, how much now: pure
    filters     what pushed filters leave over: pure
    finding     queues, bounds and offsets of a plan, asked of the cluster
    reading     what a reading task does
    cluster     topics, queues and offsets, as a plan needs them
    keyed       messages by key, through the brokers' index
    pulling     a range of a queue as Arrow batches
    patience    asking a broker again that is away
    link        a blocking connection, for the driver and for tasks
    columns     records to Arrow columns: the one decoder; `record_places` finds where records begin
    pace        so many messages a second

and of `format("rocketmq-store")`, which needs no broker:

    store_source      the format and its tables; `store_options` are its options
    store_plans       which parts each task reads; `store_planning` is the pure half of it
    store_directory   which files there are, and up to where they are whole
    store_reading     parts of log and queues as messages
    store_tables      cells of queues, entries of the index, and what is broken

`jobs` has the bulk work that is done with them, `reports` the pages that some of them write.

Tasks use neither the client nor an event loop: a task is one loop over ranges of queues.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyrocketmq.spark.sessions import register, session

__all__ = ["register", "session"]


if not TYPE_CHECKING:  # a checker would believe that the module has every name

    def __getattr__(name: str) -> object:
        """Load Spark when it is asked for: tasks and the store reader's parts need little of it."""
        if name in __all__:
            from skyrocketmq.spark import sessions

            return getattr(sessions, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
