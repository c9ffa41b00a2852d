"""Opens the store of a cluster as a broker's settings say."""

from __future__ import annotations

import asyncio

from moldau.config.zookeeper import ZooKeeperSettings
from moldau.metadata.store import StoreError, StoreUnreachableError
from moldau.metadata.zookeeper.store import StoreOptions, ZooKeeperStore


async def open_zookeeper_store(settings: ZooKeeperSettings, options: StoreOptions | None = None) -> ZooKeeperStore:
    """Connected, with all that was committed before. A chroot that is missing is made. Raises StoreError."""
    try:
        from moldau.metadata.zookeeper.kazoo_port import KazooPort, unreachable
        from moldau.metadata.zookeeper.layout import Layout
    except ImportError as missing:
        raise StoreError(
            f"zookeeper.connect is set, which needs the package kazoo (pip install 'moldau[zookeeper]'): {missing}"
        ) from None
    options = options or StoreOptions(session_seconds=settings.session_seconds)
    secret = Layout(settings.chroot).root
    port = await KazooPort.connect(
        settings.hosts, settings.session_seconds, settings.connect_seconds, settings.security, secret
    )
    try:
        async with asyncio.timeout(settings.connect_seconds):
            return await ZooKeeperStore.open(port, settings.chroot, options)
    except TimeoutError:
        await port.close()
        raise StoreUnreachableError(unreachable(settings.connect, settings.connect_seconds, port.problem)) from None
    except BaseException:
        await port.close()
        raise
