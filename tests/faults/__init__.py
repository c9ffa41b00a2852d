"""What must be survived: kills under load, hostile bytes, slow and idle connections. Imports tests.support only."""
