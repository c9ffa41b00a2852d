"""What tests share: broker processes, raw connections, reading of segment files. Imports no part of the broker but its command line."""
