"""The controller's rules: from an image and a request to operations on the store and Apache Kafka's answers.

Pure: imports types, config and the metadata package's values; chance and ids are passed in.
"""
