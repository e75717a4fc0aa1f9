"""Java's whole numbers: what travels is 32 or 64 bits wide, and a value outside is refused where it is read."""

from __future__ import annotations

from typing import Annotated

import msgspec

__all__ = ["INT32_MAX", "INT32_MIN", "INT64_MAX", "INT64_MIN", "Int32", "Int64"]

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

Int32 = Annotated[int, msgspec.Meta(ge=INT32_MIN, le=INT32_MAX)]
Int64 = Annotated[int, msgspec.Meta(ge=INT64_MIN, le=INT64_MAX)]
