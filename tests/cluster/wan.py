"""A wide area network between network namespaces, in user space: no kernel module, no qdisc, the same on every machine.

Every host has a TUN device `wan0` in a namespace of its own; one process holds the other ends and passes IPv4 packets
on, each ordered pair of hosts with its own delay, jitter, rate, loss and up or down, which change while it runs.
Packets of a pair keep their order. The namespaces have no name: they live as long as a process is in them or holds
them open, so nothing is left behind, however the test ends.

Needs the right to make namespaces (root, or a user namespace), /dev/net/tun, and Debian's iproute2.
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Optional, Sequence

CLONE_NEWNET, PR_SET_PDEATHSIG = 0x40000000, 1
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
libc = ctypes.CDLL(None, use_errno=True)


class NotHere(Exception):
    """This machine, or this user, can't have such a network."""


def enter(namespace: int) -> None:
    if libc.setns(namespace, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns: " + os.strerror(ctypes.get_errno()))


def die_with_parent() -> None:
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def new_namespace() -> int:
    """Its descriptor; the caller stays where it is."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise NotHere(f"no right to make a network namespace: {os.strerror(ctypes.get_errno())}; be root, or call "
                          "this by `unshare --user --map-root-user`")
        made = os.open("/proc/self/ns/net", os.O_RDONLY)
        enter(home)
        return made
    finally:
        os.close(home)


def open_tun() -> int:
    """`wan0` in the namespace of the caller."""
    try:
        tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", b"wan0", IFF_TUN | IFF_NO_PI))
        return tun
    except OSError as problem:
        raise NotHere(f"no TUN device: {problem}") from problem


class Line:
    """From one host to another."""

    def __init__(self) -> None:
        self.delay = self.jitter = self.loss = 0.0  # seconds, seconds, share
        self.rate = 0.0  # bytes per second; 0: as fast as it goes
        self.queue = 0.2  # seconds of traffic that wait for the rate before packets are dropped
        self.up = True
        self.free = self.last = 0.0  # when the line is free, when the last packet arrives

    def arrival(self, now: float, size: int, chance: random.Random) -> Optional[float]:
        """When a packet arrives, if it does."""
        if not self.up or (self.loss and chance.random() < self.loss):
            return None
        begin = max(now, self.free)
        if begin - now > self.queue:
            return None
        self.free = begin + (size / self.rate if self.rate else 0.0)
        due = self.free + self.delay + (chance.uniform(-self.jitter, self.jitter) if self.jitter else 0.0)
        self.last = max(self.last, due)
        return self.last


def forward(tuns: Sequence[int], commands: int) -> None:
    """The process between the hosts. It ends with its standard input."""
    paths = {(a, b): Line() for a in range(len(tuns)) for b in range(len(tuns)) if a != b}
    chance, waiting, number, text = random.Random(1), [], 0, b""
    host_of = {tun: n for n, tun in enumerate(tuns)}
    poll = select.poll()
    for descriptor in (*tuns, commands):
        poll.register(descriptor, select.POLLIN)

    def put(host: int, packet: bytes) -> None:
        try:
            os.write(tuns[host], packet)
        except OSError:
            pass  # that interface is down

    while True:
        wait = max(0.0, waiting[0][0] - time.monotonic()) * 1000 if waiting else None
        ready = poll.poll(wait)
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            due, _, host, packet = heapq.heappop(waiting)
            put(host, packet)
        for descriptor, _ in ready:
            if descriptor == commands:
                more = os.read(commands, 65536)
                if not more:
                    return
                text += more
                while b"\n" in text:
                    line, text = text.split(b"\n", 1)
                    a, b, name, value = line.decode().split()
                    setattr(paths[int(a), int(b)], name, float(value))
                    print("ok", flush=True)
                continue
            source = host_of[descriptor]
            for _ in range(64):
                try:
                    packet = os.read(descriptor, 65536)
                except OSError:
                    break
                path = paths.get((source, packet[19] - 1)) if packet[0] >> 4 == 4 else None
                due = path.arrival(now, len(packet), chance) if path else None
                if due is None:
                    continue
                if due <= now:
                    put(packet[19] - 1, packet)
                else:
                    number += 1
                    heapq.heappush(waiting, (due, number, packet[19] - 1, packet))


class Wan:
    """Hosts 0 to n-1 at 10.77.0.1 and so on, with nothing between them until it is told otherwise."""

    def __init__(self, hosts: int) -> None:
        self.children: list[subprocess.Popen] = []
        self.namespaces = [new_namespace() for _ in range(hosts)]
        self.process = subprocess.Popen([sys.executable, __file__, *map(str, self.namespaces)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, pass_fds=self.namespaces,
                                        preexec_fn=die_with_parent)
        answer = self.process.stdout.readline().strip()
        if answer != "ready":
            raise NotHere(answer or "the emulator does not start")
        for host in range(hosts):
            self.ip(host, "link", "set", "lo", "up")
            self.ip(host, "address", "add", f"{self.address(host)}/24", "dev", "wan0")
            self.interface(host, up=True)

    def __enter__(self) -> "Wan":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.kill()
        for child in self.children:
            child.wait()
        self.process.kill()
        self.process.wait()
        for namespace in self.namespaces:
            os.close(namespace)

    @staticmethod
    def address(host: int) -> str:
        return f"10.77.0.{host + 1}"

    def inside(self, host: int) -> Any:
        """What a child does before it becomes its program."""
        namespace = self.namespaces[host]

        def prepare() -> None:
            die_with_parent()
            enter(namespace)
        return prepare

    def start(self, host: int, command: Sequence[str], **options: Any) -> subprocess.Popen:
        child = subprocess.Popen(command, preexec_fn=self.inside(host), **options)
        self.children.append(child)
        return child

    def output(self, host: int, *command: str) -> str:
        done = subprocess.run(command, preexec_fn=self.inside(host), check=True, text=True, stdout=subprocess.PIPE)
        return done.stdout

    def ip(self, host: int, *arguments: str) -> None:
        try:
            self.output(host, "ip", *arguments)
        except FileNotFoundError as problem:
            raise NotHere("no program `ip`; on Debian: apt-get install iproute2") from problem

    def socket(self, host: int) -> socket.socket:
        """A TCP socket that lives at that host."""
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            enter(self.namespaces[host])
            return socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        finally:
            enter(home)
            os.close(home)

    def listeners(self, host: int) -> set[tuple[str, int]]:
        """Addresses and ports at which somebody listens there."""
        found = set()
        for line in self.output(host, "ss", "-ltnH").splitlines():
            address, port = line.split()[3].rsplit(":", 1)
            found.add((address.split("%")[0], int(port)))
        return found

    def connections(self, host: int) -> int:
        return len(self.output(host, "ss", "-tnH", "state", "established").splitlines())

    def interface(self, host: int, up: bool) -> None:
        """Takes the host's device down, or up again."""
        self.ip(host, "link", "set", "wan0", "up" if up else "down")
        if up:  # some machines have BBR, which knows no loss
            self.ip(host, "route", "replace", "10.77.0.0/24", "dev", "wan0", "src", self.address(host), "congctl",
                    "cubic")

    def between(self, a: int, b: int, **what: float) -> None:
        """Both ways: delay, jitter (s), rate (bytes/s), loss (share), queue (s), up (0 or 1)."""
        for source, target in ((a, b), (b, a)):
            for name, value in what.items():
                self.process.stdin.write(f"{source} {target} {name} {value}\n")
                self.process.stdin.flush()
                assert self.process.stdout.readline() == "ok\n"

    def everywhere(self, **what: float) -> None:
        for a in range(len(self.namespaces)):
            for b in range(a):
                self.between(a, b, **what)


def main() -> None:
    try:
        tuns = []
        for namespace in sys.argv[1:]:
            enter(int(namespace))
            tuns.append(open_tun())
            os.close(int(namespace))
    except (NotHere, OSError) as problem:
        print(problem, flush=True)
        return
    print("ready", flush=True)
    forward(tuns, sys.stdin.fileno())


if __name__ == "__main__":
    main()
