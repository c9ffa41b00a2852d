"""The asyncio edge: listeners, connections, dispatch, one handler per API, and the node that wires everything
together.
"""
