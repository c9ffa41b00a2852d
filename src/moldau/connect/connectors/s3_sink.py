"""`ArchiveSink` (see there) under the settings of Confluent's S3 sink: `s3.bucket.name` in the place of `url`.

`store.url` is the address of another server with the protocol of S3, by path (`http://localhost:9000`). Without keys,
those of the environment or of the machine's role are taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from moldau.config.definition import ConfigType
from moldau.connect.connectors.archive_formats import Format
from moldau.connect.connectors.archive_sink import FILES, ArchiveSink, options_of
from moldau.connect.connectors.archive_stores import S3, Store, store_of
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty, one_of

BUCKET: Final = ConfigDef(
    Key("s3.bucket.name", default=REQUIRED, doc="The bucket.", importance="HIGH", check=not_empty),
    Key("s3.region", default="us-west-2", doc="Its region."),
    Key("store.url", doc="The server, if it is not Amazon's."),
    Key("aws.access.key.id", doc="Who writes.", importance="HIGH"),
    Key("aws.secret.access.key", ConfigType.PASSWORD, None, "The key for it.", "HIGH"),
    Key("s3.path.style.access.enabled", ConfigType.BOOLEAN, "true", "Whether the bucket stands in the path."),
    Key("s3.part.retries", ConfigType.INT, "3", "How often a request is repeated.", check=at_least(0)),
)


def bucket_of(config: Mapping[str, Any]) -> Store:
    options = {
        "aws_region": config["s3.region"],
        "aws_virtual_hosted_style_request": str(not config["s3.path.style.access.enabled"]).lower(),
    }
    given = {
        "aws_endpoint": config["store.url"],
        "aws_access_key_id": config["aws.access.key.id"],
        "aws_secret_access_key": config["aws.secret.access.key"],
    }
    options |= {name: value for name, value in given.items() if value}
    return store_of(f"{S3}{config['s3.bucket.name']}", options | options_of(config), config["s3.part.retries"])


class S3Sink(ArchiveSink):
    CONFIG: ClassVar = (
        BUCKET
        + FILES
        + ConfigDef(
            Key("s3.compression.type", default="none", doc="Of JSON: none or gzip.", check=one_of("none", "gzip")),
            Key("s3.part.size", ConfigType.INT, "26214400", "Accepted: an object is written in one request."),
            Key("storage.class", default="", doc="Accepted.", importance="LOW"),
            Key("schema.compatibility", default="NONE", doc="Accepted: each file has the types of its records."),
            Key("store.kafka.keys", ConfigType.BOOLEAN, "true", "Accepted: keys are always in the files."),
            Key("store.kafka.headers", ConfigType.BOOLEAN, "true", "Accepted: as are headers."),
        )
    )

    @classmethod
    def codec_of(cls, chosen: Format, config: Mapping[str, Any]) -> str:
        return str(config["s3.compression.type"]) if chosen.name == "json" else super().codec_of(chosen, config)

    def made_store(self) -> Store:
        return bucket_of(self.config)
