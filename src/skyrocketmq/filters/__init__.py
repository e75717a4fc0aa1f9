"""Which messages a subscriber gets: tag expressions (`tags`) and SQL92 expressions over properties (`sql`). Pure.

A filter is parsed once, when a subscription arrives, and asked for every message. It takes values and answers yes or
no; it reads no store and knows no connection.

For SQL92 read `sql_tokens` (words), `sql_nodes` and `sql_parser` (the tree), `sql_values` and `sql_compile` (the
condition made of it), `sql` (what others use).
"""

from __future__ import annotations

from skyrocketmq.filters.sql import SqlFilter, compile_sql
from skyrocketmq.filters.sql_errors import SqlError
from skyrocketmq.filters.tags import ALL_TAGS, TagFilter, parse_tags

__all__ = ["ALL_TAGS", "SqlError", "SqlFilter", "TagFilter", "compile_sql", "parse_tags"]
