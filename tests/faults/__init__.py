"""What must survive: kills under load, hostile bytes, slow and idle connections. Imports tests.support and tests.peers."""
