"""Topics and stores as Spark DataFrames (extra `[spark]`), through Spark's Python data sources: no JAR.

A map of the package:

    columns     records to Arrow columns: the one decoder
    link        a blocking connection, for the driver and for tasks
    cluster     topics, queues and offsets, as a plan needs them
    pulling     a range of a queue as Arrow batches

Tasks use neither the client nor an event loop: a task is one loop over ranges of queues.
"""
