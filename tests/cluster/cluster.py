#!/usr/bin/env python3
"""A job whose nodes are apart: network namespaces, one per node, with an emulated wide area network between them.

    python3 tests/cluster/cluster.py CASE --program build/release/stagecraft

Exit code 0: as it should be; 1: it is not; 77: nothing was tried, because this machine or this user can't have network
namespaces, or a program is missing.
"""

import argparse
import random
import signal
import sys
import time
from pathlib import Path
from typing import Callable

sys.dont_write_bytecode = True  # nothing of ours is left among the sources

from job import PORT, Broken, Folder, Job, Node, expect, expect_same_bits, finish, stop, wait_until
from wan import NotHere, Wan

ROOT = Path(__file__).resolve().parents[2]


def same_bits(program: str, place: Path) -> None:
    """The quickstart in four processes on four hosts, with certificates; nobody listens but where the file says."""
    with Wan(4) as wan:
        job = Job(program, wan, place, 4, ROOT / "examples/quickstart-4-nodes.yaml").certify()
        job.set("job.iterations=3", "recovery.detect_after=4s", "training.optimizer.schedule.warmup_steps=2")
        nodes = job.start_all()
        expect_same_bits(job.alone(), finish(nodes, 60))
        # The same file as it stands: loopback, and no certificates.
        local = Job(program, wan, place, 0, ROOT / "examples/quickstart-4-nodes.yaml", certificates=False)
        stop_later = local.start(0)
        places = wait_until(lambda: wan.listeners(0), "node n0 listens")
        expect({address for address, _ in places} == {"127.0.0.1"}, "somebody listens elsewhere", places)
        stop(stop_later)


def slow_networks(program: str, place: Path) -> None:
    """Delay and jitter from the first hello on, then less rate, then loss, while the job runs."""
    with Wan(4) as wan:
        # A lost packet costs up to a second, when it is that of a retransmission.
        job = Job(program, wan, place, 4).set("job.iterations=16", "recovery.detect_after=5s").certify()
        wan.everywhere(delay=0.03, jitter=0.01)
        nodes = job.start_all()
        first = nodes[0]
        wait_until(lambda: first.iteration() >= 3, "iteration 3 with delays")
        wan.everywhere(delay=0.005, jitter=0.002, rate=2.5e6, queue=0.1)
        wait_until(lambda: first.iteration() >= 9, "iteration 9 at 20 Mbit/s")
        wan.everywhere(loss=0.02, rate=0)
        record = finish(nodes)
        expect_same_bits(job.alone(), record)
        expect(record["lost"] == 0, "lost", record["lost"])


def far_away(program: str, place: Path) -> None:
    """A round trip of 160 ms: a connection is being made for longer than the time between two heartbeats."""
    with Wan(2) as wan:
        wan.everywhere(delay=0.08)
        job = Job(program, wan, place, 2).set("job.iterations=2", "recovery.detect_after=2s").certify()
        expect_same_bits(job.alone(), finish(job.start_all()))


LONG = ("job.iterations=60", "timeouts.iteration=20s", "timeouts.stage=25s", "timeouts.node=30s")


def begun(job: Job) -> list[Node]:
    nodes = job.start_all()
    wait_until(lambda: nodes[0].iteration() >= 9, "9 iterations")
    return nodes


def link_down(program: str, place: Path) -> None:
    """A node's cable is pulled: for a moment, for good; that of the first one; one between two others."""
    with Wan(4) as wan:
        job = Job(program, wan, place, 4).set(*LONG).certify()
        alone = job.alone()

        patient = Job(program, wan, place, 4).set(*LONG, "recovery.detect_after=5s").certify()
        nodes = begun(patient)
        wan.interface(2, up=False)
        time.sleep(1)
        wan.interface(2, up=True)
        record = finish(nodes)
        expect_same_bits(alone, record)
        expect(record["lost"] == 0, "a second without a link is no loss when 5 s are")

        nodes = begun(job)
        wan.interface(2, up=False)
        nodes[2].wait(5, 3)
        expect("they can't know that the others do not go on" in nodes[2].said(),
               "node n2 does not say why it ends", nodes[2].said())
        record = finish([nodes[0], nodes[1], nodes[3]])
        expect_same_bits(alone, record)
        expect((record["lost"], record["begun_again"]) == (2, 1), "not one recovery", nodes[0].said())
        expect("node 'n2' is lost: it has said nothing for 1 s" in nodes[0].said(), "the loss", nodes[0].said())
        wan.interface(2, up=True)

        nodes = begun(job)
        wan.between(1, 2, up=0)
        nodes[2].wait(8, 3)
        apart = "it and node 'n1' (it has said nothing for 1 s) do not reach each other, though both reach node 'n0'"
        expect(apart in nodes[2].said(), "node n2 does not say why", nodes[2].said())
        record = finish([nodes[0], nodes[1], nodes[3]])
        expect_same_bits(alone, record)
        expect((record["lost"], record["begun_again"]) == (2, 1), "not one recovery", nodes[0].said())
        expect(f"node 'n2' is lost: {apart}" in nodes[0].said(), "the loss", nodes[0].said())
        wan.between(1, 2, up=1)

        nodes = begun(job)
        wan.interface(0, up=False)
        nodes[0].wait(8, 3)
        record = finish(nodes[1:])  # the next one leads
        expect_same_bits(alone, record)
        expect((record["lost"], record["begun_again"]) == (2, 1), "not one recovery", nodes[1].said())
        expect("node 'n1' leads the job from iteration" in nodes[1].said(), "who leads", nodes[1].said())


def killed(program: str, place: Path) -> None:
    """One that is killed takes no other with it, whose connections are encrypted by the same library."""
    with Wan(4) as wan:
        job = Job(program, wan, place, 4).set(*LONG).certify()
        alone = job.alone()
        for victim in (1, 3):
            nodes = begun(job)
            stop(nodes[victim])
            record = finish([node for node in nodes if node is not nodes[victim]])
            expect_same_bits(alone, record)
            expect((record["lost"], record["begun_again"]) == (2, 1), "not one recovery", nodes[0].said())


BRIEF = ("timeouts.operation=1s", "timeouts.iteration=2s", "timeouts.stage=4s", "timeouts.node=5s")


def bad_start(program: str, place: Path) -> None:
    """What can be wrong between the machines ends on all of them within `timeouts.stage`, with the reason."""
    cases = [(case, Wan(3)) for case in (stranger_of_another_authority, one_without_certificates, two_of_one_name,
                                         nothing_comes_back, two_do_not_reach_each_other, clocks_apart)]
    try:
        waiting = []
        for case, wan in cases:
            nodes, says = case(program, wan, place)
            waiting += [(case.__name__, node, text) for node, text in zip(nodes, says)]
        for name, node, text in waiting:
            node.wait(12, 2)
            expect(text in node.said(), f"{name}: {node.name} does not say {text!r}", node.said())
    finally:
        for _, wan in cases:
            wan.close()


NOT_THERE = "node 'n1' (10.77.0.2:7000) has not come"


def stranger_of_another_authority(program, wan, place):
    job = Job(program, wan, place, 2).set(*BRIEF).certify().certify("elsewhere")
    return ([job.start(0), job.start(1, f"security.certificates={job.folder}/elsewhere")],
            [NOT_THERE, "are the certificates of both of one authority"])


def one_without_certificates(program, wan, place):
    job = Job(program, wan, place, 2).set(*BRIEF).certify()
    bare = Job(program, wan, place, 2, certificates=False).set(*BRIEF, "nodes.0.listen=127.0.0.1:7000",
                                                               "nodes.1.listen=127.0.0.1:7001")
    return ([job.start(0), bare.start(1, options=["--leader", f"{wan.address(0)}:{PORT}"])],
            [NOT_THERE, "or is one of them without?"])


def two_of_one_name(program, wan, place):
    """While a third is still missing."""
    job = Job(program, wan, place, 3).set(*BRIEF, "nodes.1.listen=10.77.0.2:0").certify()
    first, one = job.start(0), job.start(1)
    wait_until(lambda: wan.connections(1), "node n1 is connected")
    time.sleep(0.3)
    refused = "node 'n1' is there already, at 10.77.0.2:"
    return [first, one, job.start(1)], [f"refused: {refused}", "cannot start: ", refused]


def nothing_comes_back(program, wan, place):
    job = Job(program, wan, place, 2).set(*BRIEF).certify()
    wan.between(0, 1, up=0)
    return job.start_all(), [NOT_THERE, "nothing comes back from 10.77.0.1:7000"]


def two_do_not_reach_each_other(program, wan, place):
    job = Job(program, wan, place, 3).set(*BRIEF).certify()
    wan.between(1, 2, up=0)
    return job.start_all(), ["cannot start: ", "cannot start: ", "cannot start: "]


def clocks_apart(program, wan, place):
    library = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")
    if not library.exists():
        print(f"clocks_apart: not tried, there is no {library}; on Debian: apt-get install libfaketime")
        return [], []
    job = Job(program, wan, place, 2).set(*BRIEF).certify()
    late = {"LD_PRELOAD": str(library), "FAKETIME": "+3h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    text = "ahead of that of node 'n0'; set both, certificates and logs depend on them"
    return [job.start(0), job.start(1, environment=late)], [text, text]


def noise() -> list[bytes]:
    """What strangers send: nothing at all, noise, BASP's handshake, sizes of 4 GiB, halves of TLS's hello."""
    chance = random.Random(1)
    return [b"", chance.randbytes(100_000), b"\0\0\0\1" + b"\0" * 3 + b"\3" + b"\0" * 24, b"\5\0\0\0" + b"\xff" * 64,
            b"\xff\xff\xff\xff" + b"\0" * 1000, b"\x16\3\1\0\xff\1\0\0" + b"\1" * 20,
            b"\x16\3\1\xff\xff\1" + b"\xff" * 1000, b"GET / HTTP/1.0\r\n\r\n"]


def strangers(program: str, place: Path) -> None:
    """At every port, as long as one is open, and at each that was when the job runs."""
    with Wan(4) as wan:
        job = Job(program, wan, place, 3).set(*LONG).certify()
        alone = job.alone()
        nodes, open_ones, ports = [job.start(0), job.start(1)], [], set()
        for host in (0, 1):
            wait_until(lambda: wan.listeners(host) == {(wan.address(host), PORT)}, f"node n{host} listens there alone")

        def annoy(host: int, port: int, texts: list[bytes]) -> int:
            let_in = 0
            for text in texts:
                stranger = wan.socket(3)
                stranger.settimeout(1)
                try:
                    stranger.connect((wan.address(host), port))
                    let_in += 1
                    stranger.sendall(text)
                except OSError:
                    pass
                open_ones.append(stranger)  # and it never hangs up
            return let_in

        for host in (0, 1):
            expect(annoy(host, PORT, noise()) > 0, "nobody listens")
        before = [node.cpu_seconds() for node in nodes]
        time.sleep(3)
        for node, seconds in zip(nodes, before):
            expect(node.cpu_seconds() - seconds < 2.5, f"{node.name} is kept busy by silent strangers")
        before = [node.cpu_seconds() for node in nodes]
        time.sleep(1)
        for node, seconds in zip(nodes, before):
            expect(node.cpu_seconds() - seconds < 0.3, f"{node.name} is still kept busy by silent strangers")
        annoy(0, PORT, noise())
        nodes.append(job.start(2))
        wait_until(lambda: nodes[0].iteration() >= 5, "5 iterations")
        for host in range(3):
            expect(not wan.listeners(host), "somebody listens while the job runs", wan.listeners(host))
            expect(annoy(host, PORT, noise()) == 0, "a stranger was let in while the job runs")
        for node in nodes:
            expect(node.memory_kib() < 200_000, f"{node.name} took {node.memory_kib()} KiB")
        record = finish(nodes)
        expect_same_bits(alone, record)
        expect(record["lost"] == 0, "lost", record["lost"])


CASES: dict[str, Callable[[str, Path], None]] = {case.__name__: case for case in (
    same_bits, slow_networks, far_away, link_down, killed, bad_start, strangers)}


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("case", choices=CASES)
    arguments.add_argument("--program", required=True, type=lambda text: str(Path(text).resolve()))
    options = arguments.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that it cleans up
    begin = time.monotonic()
    try:
        with Folder() as place:
            CASES[options.case](options.program, place)
    except NotHere as problem:
        print(f"SKIPPED: {problem}")
        return 77
    except Broken as problem:
        print(f"{options.case}: {problem}")
        return 1
    print(f"{options.case}: as it should be, {time.monotonic() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
