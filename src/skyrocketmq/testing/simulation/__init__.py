"""Whole clusters in one process on virtual time, from one seed; and the checks of what they promise.

Read in this order: `loop` (virtual time, processes), `clock`, `disk`, `network` with `transport`, `machine`: what a
node stands on; `node` (what runs there, and how it ends); `simulation` (all of it together, for tests of your own).
`plan` and `drawing` are a run as data; `world`, `senders`, `consumers`, `actors`, `faults` and `ending` what happens in
it; `running` runs it. `history` is what a run leaves behind, and all that the `checks` know.
"""

from __future__ import annotations
