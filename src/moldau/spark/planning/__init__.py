"""What the driver decides for a read: options, offsets, splits, limits; and the lag it publishes.

Light, since Spark starts processes that need nothing else: Arrow and librdkafka are imported inside functions only.
"""
