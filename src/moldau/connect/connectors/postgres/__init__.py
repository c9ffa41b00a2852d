"""Change data capture from PostgreSQL: `pgoutput` decodes the stream, `values` knows types, `envelope` makes records,
`server` asks the database, `source` is the connector."""
