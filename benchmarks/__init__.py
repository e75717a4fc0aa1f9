"""Our servers beside Apache's, under the same load, in one run: `python -m benchmarks [names...]`.

Read in this order:

- `report`: measurements of several turns, their medians, what is promised, the table of ratios and the JSON file.
- `c/load.c`: the load generator. `decks`: the requests it sends. `generator`: how it is run. `c_programs` compiles.
- `send_shapes`, `batches`, `pull_decks`: what real clients write. `frames`, `broker_frames`: what of it is common.
- `broker_servers`: what is started. `stage`: both brokers, warm, in turns.
- One module for each name: `memory`, `sends`, `wakeups`, `latency`, `java_producer`, `pulls`, `tls`, `transactions` and
  `broker` share the brokers of the stage; `floor`, `brokers`, `before` (with `earlier`, `held_pulls`), `plain`,
  `sql_filter`, `delayed`, `replication`, `flush` (with `slow_sync`), `recovery`, `backlog` (with `store_filler`) and
  `client` (with `client_programs`, `client_load`) start their own.
- `namesrv` (with `namesrv_frames`, `load`: a generator in Python), `peers`, `spark`, `scaling`, `hot` stand alone.
- `observe`: what a process costs: its anonymous memory and its CPU time. `meter`: the same for a stretch of load.
- `net_echo`, `delay_delivery`: parts of ours by themselves, each a program of its own.

The servers take turns; while one is measured the other is idle. The generator shares the machine with them, and its
share of the time is printed, so that a reader sees when it was the limit.
"""
