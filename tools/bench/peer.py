#!/usr/bin/env python3
"""PyTorch's side of tools/bench/train: a long-lived process that runs one training iteration per request.

Same model, first weights, batches and optimizer as stagecraft's side, from the case that it wrote. One thread. Of the
formulations that this version of PyTorch offers (attention, norm, joined products, AdamW, whole batch or micro-batches)
the fastest are taken, found by timing whole iterations at the start; so the peer is as fast as its version allows
without other arithmetic.

Requests are lines on standard input, each answered by one line of JSON: `step` or `quit`. The first line of output
says what was chosen.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, Callable, Optional

sys.dont_write_bytecode = True  # nothing of ours is left among the sources
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests/parity"))

import torch
from torch import Tensor, nn
from torch.nn import functional

from llama import Attention, Llama, Places, Recipe, Shape, explicit_norm, fuse, load_weights, places_of_rows
from peer_case import Case, read_case


def causal_mask_attention(tokens: int) -> Attention:
    """softmax(q k^T / sqrt(head_size) + mask) v with the mask made once and added inside the product."""
    mask = torch.full((tokens, tokens), float("-inf")).triu(1)

    def attention(q: Tensor, k: Tensor, v: Tensor, visible: Optional[Tensor]) -> Tensor:
        del visible
        rows, heads, _, size = q.shape
        q, k, v = (t.reshape(rows * heads, tokens, size) for t in (q, k, v))
        scores = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=size ** -0.5)
        return torch.bmm(scores.softmax(dim=-1), v).view(rows, heads, tokens, size)

    return attention


def library_attention(q: Tensor, k: Tensor, v: Tensor, visible: Optional[Tensor]) -> Tensor:
    """The library's own, which from 2.0 on keeps no square of scores."""
    del visible
    return functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def private_attention(q: Tensor, k: Tensor, v: Tensor, visible: Optional[Tensor]) -> Tensor:
    """What 1.13 has under a private name."""
    del visible
    return functional._scaled_dot_product_attention(q, k, v, None, 0.0, False, True)[0]


def library_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    return functional.rms_norm(x, (x.shape[-1],), gain, epsilon)


class Peer:
    """A model and its optimizer by one choice of formulations."""

    def __init__(self, case: Case, choice: dict[str, Any], compiled: bool) -> None:
        self.case, self.choice = case, choice
        shape = Shape.of(case.model)
        tokens = case.model["context"]
        self.places: Places = places_of_rows(shape, tokens, torch.float32)
        recipe = Recipe(attention=attentions(tokens)[choice["attention"]], norm=norms()[choice["norm"]],
                        fused=choice["fused"])
        model = Llama(shape, recipe)
        weights = {name: torch.from_numpy(w) for name, w in case.of_kind("first").items()}
        load_weights(model, fuse(weights) if choice["fused"] else weights)
        self.parameters = list(model.parameters())
        self.optimizer = self.make_optimizer()
        self.model: Callable[[Tensor, Places], Tensor] = torch.compile(model) if compiled else model
        self.batches = [self.rows_of(k) for k in range(len(case.iterations))]
        self.steps = 0

    def make_optimizer(self) -> torch.optim.Optimizer:
        o = self.case.optimizer
        groups = [{"params": [p for p in self.parameters if p.dim() > 1], "weight_decay": o["weight_decay"]},
                  {"params": [p for p in self.parameters if p.dim() == 1], "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=o["learning_rate"], betas=(o["beta1"], o["beta2"]), eps=o["epsilon"],
                                 **ADAMW[self.choice["adamw"]])

    def rows_of(self, iteration: int) -> tuple[list[Tensor], list[Tensor]]:
        """Inputs and targets [rows, T] of each micro-batch of ours; every document fills a row."""
        batches, tokens = self.case.iterations[iteration], self.case.model["context"]
        for b in batches:
            if any(int(e) - int(s) != tokens for s, e in zip(b.starts, b.starts[1:])):
                raise SystemExit("peer.py: every document has to be as long as the context")
        inputs = torch.cat([torch.from_numpy(b.inputs).view(-1, tokens) for b in batches])
        targets = torch.cat([torch.from_numpy(b.targets).view(-1, tokens) for b in batches])
        parts = self.choice["micro_batches"]
        return list(inputs.chunk(parts)), list(targets.chunk(parts))

    def step(self) -> dict[str, float]:
        """One iteration: forward, backward, clipping, AdamW. Times in seconds, and the mean loss over its tokens."""
        wall, cpu = time.perf_counter(), time.process_time()
        inputs, targets = self.batches[self.steps % len(self.batches)]
        self.steps += 1
        tokens = sum(t.numel() for t in targets)
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for x, y in zip(inputs, targets):
            logits = self.model(x, self.places)
            loss = functional.cross_entropy(logits.flatten(0, 1), y.flatten(), reduction="sum") / tokens
            loss.backward()
            total += loss.item()
        nn.utils.clip_grad_norm_(self.parameters, self.case.optimizer["clip"])
        self.optimizer.step()
        return {"cpu": time.process_time() - cpu, "wall": time.perf_counter() - wall, "loss": total}


def attentions(tokens: int) -> dict[str, Attention]:
    found = {"baddbmm": causal_mask_attention(tokens)}
    if hasattr(functional, "scaled_dot_product_attention"):
        found["sdpa"] = library_attention
    elif hasattr(functional, "_scaled_dot_product_attention"):
        found["private sdpa"] = private_attention
    return found


def norms() -> dict[str, Callable[[Tensor, Tensor, float], Tensor]]:
    found = {"explicit": explicit_norm}
    if hasattr(functional, "rms_norm"):
        found["rms_norm"] = library_norm
    return found


ADAMW: dict[str, dict[str, bool]] = {"loop": {"foreach": False}, "foreach": {"foreach": True}, "fused": {"fused": True}}


def product_rate() -> float:
    """FLOP/s of a large matrix product: tells an optimised BLAS from the reference one."""
    a, b = torch.randn(1024, 256), torch.randn(256, 768)
    best = float("inf")
    for _ in range(10):
        begin = time.process_time()
        torch.mm(a, b)
        best = min(best, time.process_time() - begin)
    return 2.0 * 1024 * 256 * 768 / best


def choices(tokens: int, micro_batches: int) -> dict[str, list[Any]]:
    """What there is to choose from, the first of each as a start."""
    return {"attention": list(reversed(attentions(tokens))), "norm": list(norms()), "fused": [True, False],
            "adamw": list(ADAMW), "micro_batches": [1, micro_batches]}


def seconds(case: Case, choice: dict[str, Any], iterations: int) -> float:
    """The least CPU time of a few iterations, the first of which does not count."""
    peer = Peer(case, choice, compiled=False)
    peer.step()
    return min(peer.step()["cpu"] for _ in range(iterations))


def choose(case: Case, iterations: int) -> dict[str, Any]:
    """One choice after the other, each with the best of those before it."""
    options = choices(case.model["context"], len(case.iterations[0]))
    best = {key: values[0] for key, values in options.items()}
    least = seconds(case, best, iterations)
    for key, values in options.items():
        for value in values[1:]:
            other = {**best, key: value}
            try:
                time_of_other = seconds(case, other, iterations)
            except (RuntimeError, TypeError) as problem:  # this version has it not, or not on a CPU
                print(f"peer.py: {key}={value}: {problem}", file=sys.stderr)
                continue
            if time_of_other < least:
                best, least = other, time_of_other
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", type=Path, help="what stagecraft's side wrote, without .json")
    parser.add_argument("--compile", action="store_true", help="torch.compile the model (2.0 and newer)")
    parser.add_argument("--tries", type=int, default=3, help="timed iterations per formulation (default: 3)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.compile and not hasattr(torch, "compile"):
        sys.exit(f"peer.py: PyTorch {torch.__version__} has no torch.compile")
    case = read_case(arguments.case)
    choice = choose(case, arguments.tries)
    if arguments.compile:
        choice["norm"] = "explicit"  # which the compiler joins with its neighbours
    peer = Peer(case, choice, arguments.compile)
    name = f"PyTorch {torch.__version__} {'compiled' if arguments.compile else 'eager'}"
    print(json.dumps({"name": name, "choice": choice, "product_rate": product_rate()}), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            break
        print(json.dumps(peer.step()), flush=True)


if __name__ == "__main__":
    main()
