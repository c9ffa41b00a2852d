"""Groups and the offsets they commit: the state behind one partition of `__consumer_offsets`.

Pure, like all of `coordinators`. May import types, wire, config and metadata images.
"""
