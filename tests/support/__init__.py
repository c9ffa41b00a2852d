"""What tests share: broker processes, raw connections, reading of segment files. Imports nothing of moldau."""
