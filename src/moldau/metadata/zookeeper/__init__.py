"""The metadata store of a cluster: a log of commits in ZooKeeper, which every broker reads and judges for itself.

    <chroot>/moldau                     form and number of entries per generation, JSON
    <chroot>/moldau/log/<generation>/c<sequence>    one commit each (frames.py), made by a sequential create
    <chroot>/moldau/snapshots/<name>/<part>         all entries at one revision, in parts
    <chroot>/moldau/head                the two newest snapshots, JSON, changed by compare-and-set
    <chroot>/brokers/ids/<id>           the brokers that are alive, ephemeral, with Kafka's JSON

The revision of a commit is its place in the log: equal everywhere, and dense. `history` (what the log means), `layout`
and `snapshots` are pure; `appending`, `following`, `presence` and `snapshotting` do one duty each over the few calls of
`port`, which `kazoo_port` makes real; `store` puts them together.
"""
