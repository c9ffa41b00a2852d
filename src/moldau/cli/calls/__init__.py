"""What both command families, `moldau` and the kafka-* names, ask a cluster: one set of calls, no words for people.

A call takes the Connection and decides here, and nowhere else, which client carries it: librdkafka's admin client
where it knows the request, since it also knows every login; our own (`Connection.wire`) for what it lacks. A
partition is a `moldau.types.ids.TopicPartition` on this side of a call, whatever the client calls it.

A call for many things answers for each of them: with its value, or with the Refusal it got. `demanded` raises
such a one; `moldau.cli.refusals` and `moldau.cli.kafka.failures` put it into the words of their family.

Imports: the rest of the package, and clients inside functions, so that help and refusals stay quick.
"""
