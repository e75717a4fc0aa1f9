"""Our servers beside Apache's, under the same load, in one run: `python -m benchmarks [names...]`.

- `frames`: requests as Java writes them; what of them is each benchmark's own is in `namesrv_frames`, `broker_frames`.
- `load`: a generator: ready-made frames on many connections, so many in flight, answers counted.
- `observe`: what a process costs: its anonymous memory and its CPU time. `meter`: the same for a stretch of load.
- `report`: measurements of several rounds, their medians, the table of ratios and the JSON file.
- `namesrv`: the name server.
- `client`: our client beside Apache's, on our broker; `client_programs` starts them, `client_load` is ours.
- `broker`: the broker; read `broker_servers` (what is started), `broker_load` (sends), `broker_pulls`, `broker_java`.
- `flush`: synchronous flush, also on a disk whose syncs are slow (`slow_sync`).
- `replication`: synchronous replication to a slave of the same make.
- `spark`: our Spark source, sink and store reader; `spark_work` is what Spark does, `spark_filler` fills a topic,
  `spark_kafka` has Kafka.
- `recovery`: a start after a kill. `backlog`: millions of messages waiting. `store_filler` makes the files of both.

The servers take turns, round by round; while one is measured the other is idle or not running. The generator shares the
machine with them, and its share of the time is printed, so that a reader sees when it was the limit.
"""
