"""Whole clusters in virtual time, from a seed: real brokers on a fake network, fake disks and a fake of ZooKeeper.

`world` runs one seed: `machine` starts brokers, `courses` draws what happens to them (`faults`, and the errands of an
`admin`), `clients`, `transactions` and `groups` work meanwhile. `promises`, `histories` and `fences` look every few
turns at what must be true at any time, `ending` at what must be true when all is over. `mutations` are known mistakes,
to see that the promises can be broken.

Not simulated: groups of the classic protocol, compaction and retention, logs on their way from one log directory to
another, listeners with logins, and what a broker's threads do to each other.
"""
