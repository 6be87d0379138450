"""A Llama-style decoder in PyTorch: the peer that stagecraft's arithmetic and speed are compared with.

RMSNorm, rotary positions in the rotate-half form, grouped-query attention within each document, SwiGLU, no biases.
Parameters bear the global names that stagecraft uses (those of Hugging Face). Written from the formulas, so that it
shares nothing with the C++ code but the names.

Works with PyTorch 1.13 and newer, in any precision.
"""

import math
from dataclasses import dataclass
from typing import Any, Callable, Optional

import torch
from torch import Tensor, nn
from torch.nn import functional

Attention = Callable[[Tensor, Tensor, Tensor, Optional[Tensor]], Tensor]
Norm = Callable[[Tensor, Tensor, float], Tensor]
Turn = Callable[[Tensor, "Places"], Tensor]


@dataclass(frozen=True)
class Shape:
    """The numbers of a model, as in the `model` section of a topology."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    tied_embeddings: bool
    rope_theta: float
    norm_epsilon: float

    @staticmethod
    def of(model: dict[str, Any]) -> "Shape":
        """From the `model` of a case; keys that mean nothing here are left out."""
        return Shape(**{key: model[key] for key in Shape.__dataclass_fields__})

    @property
    def head_size(self) -> int:
        return self.width // self.heads


@dataclass(frozen=True)
class Places:
    """What attention needs to know of a batch: cosines and sines [..., T, head_size] by position in the document, and
    which keys a query sees as a boolean mask [T, T], or None for plain causal rows."""

    cosine: Tensor
    sine: Tensor
    visible: Optional[Tensor]


def rotary_table(shape: Shape, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """cos and sin of position x theta^(-2i / head_size) (Su et al. 2021), each frequency at i and i + head_size / 2."""
    i = torch.arange(shape.head_size // 2, dtype=torch.float64)
    angles = positions.to(torch.float64)[:, None] * shape.rope_theta ** (-2 * i / shape.head_size)
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos().to(dtype), angles.sin().to(dtype)


def places_of_documents(shape: Shape, starts: Tensor, dtype: torch.dtype) -> Places:
    """For one row of documents side by side: positions restart, and attention stays within a document."""
    lengths = starts[1:] - starts[:-1]
    document = torch.repeat_interleave(torch.arange(len(lengths)), lengths)
    positions = torch.arange(int(starts[-1])) - starts[document]
    visible = (document[:, None] == document[None, :]) & (positions[:, None] >= positions[None, :])
    return Places(*rotary_table(shape, positions, dtype), visible)


def places_of_rows(shape: Shape, tokens: int, dtype: torch.dtype) -> Places:
    """For rows that are one document each."""
    return Places(*rotary_table(shape, torch.arange(tokens), dtype), None)


def explicit_attention(q: Tensor, k: Tensor, v: Tensor, visible: Optional[Tensor]) -> Tensor:
    """softmax(q k^T / sqrt(head_size)) v, term by term. [batch, heads, T, head_size] each."""
    if visible is None:
        visible = torch.ones(q.shape[-2], q.shape[-2], dtype=torch.bool).tril()
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    return scores.masked_fill(~visible, -math.inf).softmax(dim=-1) @ v


def explicit_norm(x: Tensor, gain: Tensor, epsilon: float) -> Tensor:
    """x / sqrt(mean(x^2) + epsilon) * gain (Zhang and Sennrich 2019)."""
    return x * torch.rsqrt(x.pow(2).mean(dim=-1, keepdim=True) + epsilon) * gain


def turn_halves(x: Tensor, places: Places) -> Tensor:
    """Turns the pairs (i, i + head_size / 2) of each head by their angle."""
    a, b = x.chunk(2, dim=-1)
    return x * places.cosine + torch.cat((-b, a), dim=-1) * places.sine


@dataclass(frozen=True)
class Recipe:
    """How a model computes: all recipes give the same numbers but for rounding, some of them faster. `fused` joins
    products that share their input, and with them the parameters and their names."""

    attention: Attention = explicit_attention
    norm: Norm = explicit_norm
    turn: Turn = turn_halves
    fused: bool = False


class RmsNorm(nn.Module):
    """A gain and the norm that it belongs to."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(shape.width))
        self.norm = recipe.norm
        self.epsilon = shape.norm_epsilon

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x, self.weight, self.epsilon)


def linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, bias=False)


class SelfAttention(nn.Module):
    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        self.shape = shape
        self.attention = recipe.attention
        self.turn = recipe.turn
        columns = shape.kv_heads * shape.head_size
        self.q_proj = linear(shape.width, shape.width)
        self.k_proj = linear(shape.width, columns)
        self.v_proj = linear(shape.width, columns)
        self.o_proj = linear(shape.width, shape.width)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.q_proj(x), self.k_proj(x), self.v_proj(x)

    def forward(self, x: Tensor, places: Places) -> Tensor:
        rows, tokens, width = x.shape
        shape = self.shape
        q, k, v = (t.view(rows, tokens, -1, shape.head_size).transpose(1, 2) for t in self.project(x))
        q, k = self.turn(q, places), self.turn(k, places)
        if shape.kv_heads != shape.heads:  # each key head serves its group of neighbouring query heads
            k, v = (t.repeat_interleave(shape.heads // shape.kv_heads, dim=1) for t in (k, v))
        attended = self.attention(q, k, v, places.visible)
        return self.o_proj(attended.transpose(1, 2).reshape(rows, tokens, width))


class FusedSelfAttention(SelfAttention):
    """The same with the three projections in one product, which is faster."""

    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__(shape, recipe)
        self.columns = [shape.width, shape.kv_heads * shape.head_size, shape.kv_heads * shape.head_size]
        del self.q_proj, self.k_proj, self.v_proj
        self.qkv_proj = linear(shape.width, sum(self.columns))

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.qkv_proj(x).split(self.columns, dim=-1)


class Mlp(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.gate_proj = linear(shape.width, shape.hidden)
        self.up_proj = linear(shape.width, shape.hidden)
        self.down_proj = linear(shape.hidden, shape.width)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.gate_proj(x), self.up_proj(x)

    def forward(self, x: Tensor) -> Tensor:
        gate, up = self.project(x)
        return self.down_proj(functional.silu(gate) * up)


class FusedMlp(Mlp):
    """The same with gate and up in one product."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape)
        del self.gate_proj, self.up_proj
        self.gate_up_proj = linear(shape.width, 2 * shape.hidden)

    def project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.gate_up_proj(x).chunk(2, dim=-1)


class Block(nn.Module):
    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        self.input_layernorm = RmsNorm(shape, recipe)
        self.self_attn = (FusedSelfAttention if recipe.fused else SelfAttention)(shape, recipe)
        self.post_attention_layernorm = RmsNorm(shape, recipe)
        self.mlp = (FusedMlp if recipe.fused else Mlp)(shape)

    def forward(self, x: Tensor, places: Places) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), places)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, shape: Shape, recipe: Recipe) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList(Block(shape, recipe) for _ in range(shape.layers))
        self.norm = RmsNorm(shape, recipe)

    def forward(self, tokens: Tensor, places: Places) -> Tensor:
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, places)
        return self.norm(x)


class Llama(nn.Module):
    """Tokens [rows, T] to logits [rows, T, vocabulary]."""

    def __init__(self, shape: Shape, recipe: Recipe = Recipe()) -> None:
        super().__init__()
        self.model = Decoder(shape, recipe)
        self.lm_head = linear(shape.width, shape.vocabulary)
        if shape.tied_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, tokens: Tensor, places: Places) -> Tensor:
        return self.lm_head(self.model(tokens, places))


def fuse(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Weights by global names, joined as a fused model names them."""
    joins = {"q_proj": ("qkv_proj", ("q_proj", "k_proj", "v_proj")),
             "gate_proj": ("gate_up_proj", ("gate_proj", "up_proj"))}
    parts = {part for _, names in joins.values() for part in names}
    fused = {}
    for name, weight in weights.items():
        part = name.split(".")[-2]
        if part in joins:
            whole, names = joins[part]
            fused[name.replace(part, whole)] = torch.cat([weights[name.replace(part, n)] for n in names])
        elif part not in parts:
            fused[name] = weight
    return fused


def load_weights(model: Llama, weights: dict[str, Tensor]) -> None:
    """Copies weights by name; a tied head follows its table. Raises KeyError or RuntimeError for one that is missing
    or has another shape."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.shape != weights[name].shape:
                raise RuntimeError(f"{name}: {tuple(weights[name].shape)} given, {tuple(parameter.shape)} needed")
            parameter.copy_(weights[name])
