"""A job whose nodes are hosts of a `Wan`: its file, its processes, and what they leave."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Optional, Sequence

from wan import Wan

PORT = 7000

# Small, so that what a test waits for is the network. %s: nodes, sources.
SMALL = """version: 1
job: { name: small, seed: 7, iterations: 6 }
model: { layers: 4, width: 32, heads: 2, hidden: 48, context: 32 }
data: { sources: [{ files: FOLDER/text.txt, split: "\\n\\n" }], micro_batch_tokens: 64 }
training: { micro_batches: 4, logical_shards: 2, optimizer: { kind: adamw, learning_rate: 1e-2, clip: 0.5 } }
pipeline: { stages: NODES, schedule: 1f1b, dispatch: reactive }
security: { certificates: FOLDER/certificates }
timeouts: { operation: 4s, iteration: 8s, stage: 10s, node: 12s }
nodes:
"""
NODE = '  - {{ name: n{n}, listen: "{host}:{port}", devices: [{{ kind: cpu, count: 1, memory: 64MiB }}] }}\n'
BITS = ("losses_hex", "weights_sha256", "moments_sha256", "iterations", "corpus_sha256")


class Broken(Exception):
    """Something is not as it should be."""


def expect(holds: bool, what: str, *more: Any) -> None:
    if not holds:
        raise Broken("\n".join([what, *map(str, more)]))


def expect_same_bits(one: dict[str, Any], other: dict[str, Any]) -> None:
    for key in BITS:
        expect(one[key] == other[key], f"{key} differ", one[key], other[key])
    expect(bool(one["weights_sha256"]), "there are no weights")
    expect(not other["violations"], "violations", other["violations"])


def wait_until(condition: Callable[[], Any], what: str, seconds: float = 20) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        expect(time.monotonic() < deadline, f"after {seconds} s: {what}")
        time.sleep(0.01)
    return value


class Folder:
    """A place for files; those of runs that were killed are removed."""

    def __init__(self) -> None:
        place = Path(tempfile.gettempdir())
        for old in place.glob("stagecraft-cluster-*-*"):
            if not Path("/proc", old.name.split("-")[2]).exists():
                shutil.rmtree(old, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix=f"stagecraft-cluster-{os.getpid()}-", dir=place))

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: Any) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Node:
    """A process of the job."""

    def __init__(self, process: subprocess.Popen, name: str, out: Path, said: Path) -> None:
        self.process, self.name, self.out, self.said_file = process, name, out, said

    def said(self) -> str:
        return self.said_file.read_text(errors="replace")

    def iteration(self) -> int:
        """The newest that it told of; of the first node."""
        return max([0, *map(int, re.findall(r"^iteration (\d+)/", self.said(), re.M))])

    def wait(self, seconds: float, code: int) -> None:
        """Ends with that code, in that time."""
        try:
            got = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Broken(f"{self.name} has not ended within {seconds:.0f} s\n{self.said()}") from None
        expect(got == code, f"{self.name} ended with {got}, not with {code}", self.said())

    def record(self, seconds: float = 40) -> dict[str, Any]:
        self.wait(seconds, 0)
        return json.loads(self.out.read_text().splitlines()[-1])

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_kib(self) -> int:
        """The most that it ever had in memory."""
        return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1])


class Job:
    """On hosts 0 to nodes - 1 of a network, in a folder of its own under `place`."""

    def __init__(self, program: str, wan: Optional[Wan], place: Path, nodes: int, file: Optional[Path] = None,
                 certificates: bool = True) -> None:
        self.program, self.wan, self.nodes, self.sets = program, wan, nodes, []
        self.folder = Path(tempfile.mkdtemp(dir=place))
        hosts = [Wan.address(n) for n in range(nodes)]
        if file:
            self.file = file
            for n, host in enumerate(hosts):
                self.set(f"nodes.{n}.listen={host}:{PORT}")
            if certificates:
                self.set(f"security.certificates={self.folder}/certificates")
        else:
            self.file = self.folder / "job.yaml"
            text = SMALL if certificates else re.sub("security:.*\n", "", SMALL)
            text = text.replace("FOLDER", str(self.folder)).replace("NODES", str(nodes))
            self.file.write_text(text + "".join(NODE.format(n=n, host=h, port=PORT) for n, h in enumerate(hosts)))
            (self.folder / "text.txt").write_text("\n\n".join("the quick brown fox " * k for k in range(2, 60)))

    def set(self, *texts: str) -> "Job":
        for text in texts:
            self.sets += ["--set", text]
        return self

    def certify(self, folder: str = "certificates") -> "Job":
        subprocess.run([self.program, "certificate", str(self.file), *self.sets, "--out", str(self.folder / folder)],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return self

    def alone(self) -> dict[str, Any]:
        """The same job in one process."""
        done = subprocess.run([self.program, "run", str(self.file), "--json", "--fresh", *self.sets, "--set",
                               f"output.dir={self.folder}/alone", "--set", f"checkpoint.dir={self.folder}/alone"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        expect(done.returncode == 0, "the job in one process", done.stderr)
        return json.loads(done.stdout.splitlines()[-1])

    def start(self, index: int, *sets: str, host: Optional[int] = None, name: Optional[str] = None,
              options: Sequence[str] = (), environment: Optional[dict[str, str]] = None) -> Node:
        name = name or f"n{index}"
        place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.folder))
        command = [self.program, "node", str(self.file), "--name", name, *self.sets]
        for text in sets:
            command += ["--set", text]
        command += ["--json", "--fresh"]  # any of them may lead at the end
        command += options
        with open(place / "out", "w") as out, open(place / "said", "w") as said:
            process = self.wan.start(index if host is None else host, command, cwd=place, stdout=out, stderr=said,
                                     env={**os.environ, **(environment or {})})
        return Node(process, name, place / "out", place / "said")

    def start_all(self) -> list[Node]:
        return [self.start(n) for n in range(self.nodes)]


def finish(nodes: list[Node], seconds: float = 40) -> dict[str, Any]:
    """All of them end well; the record of the first."""
    try:
        record = nodes[0].record(seconds)
        for node in nodes[1:]:
            node.wait(5, 0)
        return record
    except Broken as problem:
        said = "\n".join(f"-- {node.name} said\n{node.said()[-2000:]}" for node in nodes)
        raise Broken(f"{problem}\n{said}") from None


def stop(node: Node) -> None:
    node.process.send_signal(signal.SIGKILL)
    node.process.wait()
