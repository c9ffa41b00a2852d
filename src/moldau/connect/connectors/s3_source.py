"""`ArchiveSource` (see there) from a bucket, under the settings of `S3SinkConnector`.

It reads what that wrote here: files of Confluent's own sink have no manifest.
"""

from __future__ import annotations

from typing import ClassVar

from moldau.connect.connectors.archive_source import READING, ArchiveSource
from moldau.connect.connectors.archive_stores import Store
from moldau.connect.connectors.s3_sink import BUCKET, bucket_of


class S3Source(ArchiveSource):
    CONFIG: ClassVar = BUCKET + READING

    def made_store(self) -> Store:
        return bucket_of(self.config)
