"""Taking over the data of a cleanly stopped Apache Kafka broker, without Kafka.

    kraft_records   Kafka's own metadata records, decoded
    kraft_state     what they amount to: topics, settings, and what a single Moldau broker has no use for
    survey          what lies in the log directories of a broker
    plan            what of it is taken, and what is not, with the reason
    carrying        a copy, or the log directories themselves

The partitions' files need no change: both brokers keep their logs in one format. What is made anew is the metadata.
"""
