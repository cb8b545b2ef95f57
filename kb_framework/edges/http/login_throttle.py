"""How often somebody may fail."""

from __future__ import annotations

import ipaddress
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from kb_framework.errors import TooManyRequests

_WINDOW_SECONDS = 60.0
# Who fails from more addresses than this pushes out the oldest of them; memory stays bounded.
_ADDRESSES = 10_000


class Failures:
    """Counts failures by address, a minute at a time; zero is no limit.

    In memory, unlike `store.limits`: an attack must not become writes to the database.
    """

    def __init__(self, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = per_minute
        self._clock = clock
        self._counted: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._lock = threading.Lock()

    def check(self, address: str) -> None:
        """Raise `TooManyRequests` for an address that has failed too often within the last minute."""
        began, count = self._counted.get(_network(address), (0.0, 0))
        left = began + _WINDOW_SECONDS - self._clock()
        if 0 < self._most <= count and left > 0:
            seconds = math.ceil(left)
            raise TooManyRequests(
                f"too many wrong keys from this address; try again in {seconds} s", seconds
            )

    def add(self, address: str) -> None:
        network, time = _network(address), self._clock()
        with self._lock:
            began, count = self._counted.pop(network, (time, 0))
            fresh = time - began >= _WINDOW_SECONDS
            self._counted[network] = (time, 1) if fresh else (began, count + 1)
            while len(self._counted) > _ADDRESSES:
                self._counted.popitem(last=False)


def _network(address: str) -> str:
    """The address; of IPv6 the network of a customer, who has billions of addresses."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, 64), strict=False))
    return address
