"""Our servers beside Apache's, under the same load, in one run: `python -m benchmarks [names...]`.

- `load`: the generator: ready-made frames on many connections, so many in flight, answers counted.
- `observe`: what a process costs: its anonymous memory and its CPU time.
- `report`: measurements of several rounds, their medians, the table of ratios and the JSON file.
- one module for each benchmark; `namesrv` so far.

Both servers are started once and take turns, round by round; while one is measured the other is idle. The generator
shares the machine with them, and its share of the time is printed, so that a reader sees when it was the limit.
"""
