"""Command line: record Apache Kafka's answers, compare a broker with them, or do both live (`make conformance`)."""

from tests.conformance.command import main

raise SystemExit(main())
