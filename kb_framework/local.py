"""Who is at the other end of a connection on this machine: the user of a peer, and an engine that proves itself."""

from __future__ import annotations

import errno
import hashlib
import hmac
import ipaddress
import os
import socket
import struct
import sys
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

# In the scope of a request that came over a socket.
PEER = "kb.peer"
_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_ESTABLISHED = 1
# Of netlink: the protocol, kinds of messages, and where an answer has the state and the user of a socket.
_SOCK_DIAG, _BY_FAMILY, _REQUEST, _ERROR = 4, 20, 1, 2
_ANSWER_STATE, _ANSWER_USER = 17, 80
# After the addresses: state, queues, timer, retransmits, user id.
_USER = 4
# The kernel's table is not read in one piece, so an entry can be missed while others come and go.
_LOOKS = 3


def prove(secret: str, instance: str, nonce: str) -> str:
    """Return what only a holder of the data folder's secret can answer to a nonce."""
    return hmac.new(
        secret.encode(), f"kb engine {instance} {nonce}".encode(), hashlib.sha256
    ).hexdigest()


def owners(folder: Path) -> frozenset[int]:
    """Return the users that have the data folder anyway: its owner, the engine's own user, and root."""
    if not hasattr(os, "geteuid"):
        return frozenset()
    return frozenset({folder.stat().st_uid, os.geteuid(), 0})


def tells_users() -> bool:
    """Return whether this system says which user a connection belongs to."""
    return sys.platform == "linux" and any(os.access(table, os.R_OK) for table in _TABLES)


def pid_namespace() -> str | None:
    """Return what process ids are relative to: that of another container means nothing here."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None


class Peer:
    """The other end of one connection. Its user is looked up once, when first needed."""

    def __init__(self, transport: Any) -> None:
        self._theirs = transport.get_extra_info("peername")
        self._ours = transport.get_extra_info("sockname")

    @cached_property
    def user(self) -> int | None:
        """Return the user id of the process that connected; None where it cannot be told."""
        try:
            return user_of(self._theirs, self._ours)
        except (OSError, ValueError, TypeError):
            return None


def user_of(theirs: Sequence[Any], ours: Sequence[Any]) -> int | None:
    """Return the user of the socket that is connected from one address to another; None where the kernel does not say."""
    try:
        return user_by_netlink(theirs, ours)
    except OSError:
        # No such kind of socket here.
        return user_by_tables(theirs, ours)


def user_by_netlink(theirs: Sequence[Any], ours: Sequence[Any]) -> int | None:
    """Ask the kernel for one socket, which takes the same time however many there are (sock_diag(7))."""
    source, target = (ipaddress.ip_address(str(end[0]).partition("%")[0]) for end in (theirs, ours))
    family = socket.AF_INET if source.version == 4 else socket.AF_INET6
    ports = struct.pack("!HH", int(theirs[1]), int(ours[1]))
    wanted = (
        ports
        + source.packed.ljust(16, b"\0")
        + target.packed.ljust(16, b"\0")
        + struct.pack("=III", 0, *[0xFFFFFFFF] * 2)
    )
    asked = struct.pack("=BBBxI", family, socket.IPPROTO_TCP, 0, 0xFFFFFFFF) + wanted
    head = struct.pack("=IHHII", 16 + len(asked), _BY_FAMILY, _REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.settimeout(1)
        kernel.send(head + asked)
        answer = kernel.recv(4096)
    kind = struct.unpack_from("=H", answer, 4)[0]
    if kind == _ERROR:
        code = -struct.unpack_from("=i", answer, 16)[0]
        if code == errno.ENOENT:
            return None
        raise OSError(code, os.strerror(code))
    user = struct.unpack_from("=I", answer, _ANSWER_USER)[0]
    return _trusted(user, answer[_ANSWER_STATE])


def _trusted(user: int, state: int) -> int | None:
    """A socket that its process has closed is listed as root's."""
    return user if user or state == _ESTABLISHED else None


def user_by_tables(theirs: Sequence[Any], ours: Sequence[Any]) -> int | None:
    """Look in the kernel's tables of all sockets, which takes some milliseconds."""
    wanted = [f" {_hex(theirs, six)} {_hex(ours, six)} ".encode() for six in (False, True)]
    for _ in range(_LOOKS):
        for table, addresses in zip(_TABLES, wanted, strict=True):
            if not table.exists():
                continue
            listed = table.read_bytes()
            if (place := listed.find(addresses)) >= 0:
                fields = listed[place + len(addresses) :].split(maxsplit=_USER + 1)
                return _trusted(int(fields[_USER]), int(fields[0], 16))
    return None


def _hex(address: Sequence[Any], six: bool) -> str:
    """Return an address as the kernel writes it: words of four bytes in the machine's own order, and the port."""
    found = ipaddress.ip_address(str(address[0]).partition("%")[0])
    if six and isinstance(found, ipaddress.IPv4Address):
        found = ipaddress.IPv6Address(b"\0" * 10 + b"\xff\xff" + found.packed)
    elif not six and isinstance(found, ipaddress.IPv6Address):
        found = found.ipv4_mapped or ipaddress.IPv4Address(0)
    words = [
        int.from_bytes(found.packed[at : at + 4], sys.byteorder)
        for at in range(0, len(found.packed), 4)
    ]
    return "".join(f"{word:08X}" for word in words) + f":{int(address[1]):04X}"
