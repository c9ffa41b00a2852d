"""The other brokers: `peer` says how they are called; connections, their lanes and the links that tell of a death stand
beside it. Imports `client.core`, the part of the client that knows no socket.
"""
