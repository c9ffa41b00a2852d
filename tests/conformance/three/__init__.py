"""Answers that depend on there being several brokers: recorded on three of Apache Kafka, expected of three of ours.

python -m tests.conformance.three record [SCENARIO ...]     replace the recordings
python -m tests.conformance.three compare [SCENARIO ...]    ask three brokers of ours
"""
