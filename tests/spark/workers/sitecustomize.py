"""What Python runs first in every process that Spark starts in tests: where this directory is on its path.

Spark gives its workers PySpark as a zip archive, which each of them would compile anew, for seconds. In tests they use
the same PySpark where it is installed, compiled. Without this everything works the same, only later: the test that
submits a program, as users do, shows it.
"""

from __future__ import annotations

import sys

sys.path[:] = [entry for entry in sys.path if not entry.endswith("pyspark.zip")]
