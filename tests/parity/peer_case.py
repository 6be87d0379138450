"""Reads what tools/bench/peer_case.hpp writes: a training job as a peer of stagecraft sees it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class MicroBatch:
    """Documents side by side: document d is tokens [starts[d], starts[d + 1])."""

    starts: np.ndarray
    inputs: np.ndarray
    targets: np.ndarray


@dataclass(frozen=True)
class Case:
    """A model, its batches, and what stagecraft made of them."""

    model: dict[str, Any]
    optimizer: dict[str, Any]
    iterations: list[list[MicroBatch]]
    outcomes: list[dict[str, float]]
    tensors: dict[str, np.ndarray]

    def of_kind(self, kind: str) -> dict[str, np.ndarray]:
        """The tensors named `<kind>/<global name>`, by global name."""
        prefix = kind + "/"
        return {name[len(prefix):]: t for name, t in self.tensors.items() if name.startswith(prefix)}


class NothingToCompare(Exception):
    """The case says that this build can't do what it is about."""


def read_case(path: Path) -> Case:
    """Reads `<path>.json` and `<path>.bin`; raises NothingToCompare, with the reason, where there is none."""
    about = json.loads(Path(f"{path}.json").read_text())
    if "skipped" in about:
        raise NothingToCompare(about["skipped"])
    data = Path(f"{path}.bin").read_bytes()
    tensors = {}
    for name, entry in about["tensors"].items():
        count = int(np.prod(entry["shape"]))
        flat = np.frombuffer(data, dtype="<f4", count=count, offset=entry["offset"])
        tensors[name] = flat.reshape(entry["shape"]).copy()
    iterations = [
        [MicroBatch(*(np.asarray(b[key], dtype=np.int64) for key in ("starts", "inputs", "targets"))) for b in batches]
        for batches in about["iterations"]
    ]
    return Case(about["model"], about["optimizer"], iterations, about.get("outcomes", []), tensors)
