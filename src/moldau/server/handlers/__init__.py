"""One module per Kafka API: what it serves, what it leaves out (in its head comment), and an `API` that the
dispatcher calls.

Handlers import services of the broker, never each other. `catalogue` lists them all.

A handler answers in one of two ways:

* `handle(broker, context, request)` gets the request as a message and gives back a message: the message itself where
  it is known at once, else an awaitable of it; the dispatcher reads, waits, writes and counts. This is the way to take.
  What the awaitable is made with does not matter to anybody else: an `async def` waits for the controller, other
  brokers and files; `turns.begin(work)` goes through what there may be thousands of; `coordination.futures.respond`
  hands on what a coordinator says. The last two give the message itself where they can, so that what is small
  costs no task.
* `raw(broker, context, frame, body, slot)` reads the frame itself and fills the slot, in its own time. Only for what
  moves records, which are neither copied nor built into messages: Produce, whose batches stay in the frame until they
  are written, and Fetch, whose answer is pieces of files. It counts what it does itself.
"""
