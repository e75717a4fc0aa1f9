"""An archive as a DataFrame: what `spark.read.parquet(PATH)` gives, with all columns in their types.

The list for Spark's readers has whole paths in it. Here only its files' names are used, so an archive that was moved or
copied is read where it is; and a topic whose name is a number stays a text.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import unquote

from skyrocketmq.errors import NotFound
from skyrocketmq.spark.jobs.archive_state import METADATA
from skyrocketmq.spark.jobs.folder import Folder, folder_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["archived_files", "read_archive"]


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """The messages of an archive as it is now. Raises `NotFound` if there is none."""
    from pyspark.sql.types import DateType, StructField, StructType

    from skyrocketmq.spark.reading import source_schema

    folder = folder_at(spark, path)
    files = archived_files(folder)
    if not files:
        raise NotFound(f"there is no archive at {folder.path()}: the job archive writes one")
    schema = StructType([*source_schema(with_properties=True).fields, StructField("day", DateType())])
    reading = spark.read.schema(schema).option("basePath", folder.path())
    return reading.parquet(*(folder.path(name) for name in files))


def archived_files(folder: Folder) -> list[str]:
    """The files that count: the name of each ends with topic, day and its own name."""
    listed = (folder.read(METADATA) or b"").decode().splitlines()
    paths = [str(json.loads(line)["path"]) for line in listed[1:]]
    return [unquote("/".join(path.split("/")[-3:])) for path in paths]
