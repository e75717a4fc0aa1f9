"""Which messages a subscriber gets: tag expressions (`tags`), with SQL92 expressions coming beside them. Pure.

A filter is parsed once, when a subscription arrives, and asked for every message. It takes values and answers yes or
no; it reads no store and knows no connection.
"""

from __future__ import annotations

from skyrocketmq.filters.tags import ALL_TAGS, TagFilter, parse_tags

__all__ = ["ALL_TAGS", "TagFilter", "parse_tags"]
