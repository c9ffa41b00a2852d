"""`moldau zookeeper`: ZooKeeper servers from the jars of PySpark, and a client of theirs."""
