"""format("moldau") and Spark's own JVM connector side by side: same broker, data, queries and session settings."""
