"""Producers and consumers, for our brokers and for Apache's.

The rules come first, each in a module of its own that takes values and returns values: who reads which queue
(`allocation`), where a message goes (`selectors`, `queue_choice`, `fault_table`), what is in memory and when to fetch
more (`message_cache`, `flow_control`), what is consumed (`offset_store`), what is subscribed (`subscription`).
"""

from __future__ import annotations
