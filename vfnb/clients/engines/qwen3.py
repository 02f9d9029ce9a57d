"""The Qwen3 architecture in numpy: prefill of one sequence, and one step of many at once with a cache.

Architecture: https://arxiv.org/abs/2505.09388 (grouped-query attention with normed queries and keys, rotary
positions, SwiGLU). Arithmetic is float32 whatever the weights were stored in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfnb.errors import ConfigError

__all__ = ["Cache", "Qwen3"]

Array = NDArray[np.float32]
_CHUNK = 64  # rows of a prefill's attention at once: what they need stays in the processor's cache
_AFTER = np.triu(np.full((_CHUNK, _CHUNK), -np.inf, np.float32), 1)  # a token does not see those after it


class Cache:
    """Keys and values of up to `slots` sequences; sequence i is in row i."""

    def __init__(self, layers: int, slots: int, heads: int, size: int) -> None:
        self.slots, self.capacity = slots, 128
        shape = (layers, 2, slots, heads, self.capacity, size)
        self.data: Array = np.zeros(shape, np.float32)
        """float32[layers, 2, slots, heads, capacity, size]."""

    def reserve(self, length: int) -> None:
        """Room for sequences of `length` tokens."""
        while self.capacity < length:
            self.data = np.concatenate([self.data, np.zeros_like(self.data)], axis=4)
            self.capacity *= 2

    def move(self, source: int, target: int) -> None:
        """Put one sequence into another's row."""
        if source != target:
            self.data[:, :, target] = self.data[:, :, source]


class Qwen3:
    """The network.

    Args:
        config: `config.json` of a Hugging Face folder.
        weights: float32 arrays under Hugging Face's names.

    Raises:
        ConfigError: an array is missing or has another shape than the config says.
    """

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
        self.layers: int = config["num_hidden_layers"]
        self.heads: int = config["num_attention_heads"]
        self.kv_heads: int = config["num_key_value_heads"]
        self.size: int = config.get("head_dim") or config["hidden_size"] // self.heads
        self.vocab: int = config["vocab_size"]
        self.limit: int = config["max_position_embeddings"]
        self.small: bool = config["hidden_size"] <= 256
        """Its products are too small to be worth several cores."""
        self._eps: float = config["rms_norm_eps"]
        rope = config.get("rope_parameters") or {}
        theta = rope.get("rope_theta", config.get("rope_theta", 10000.0))
        steps = np.arange(0, self.size, 2, dtype=np.float64) / self.size
        angles = np.arange(self.limit)[:, None] / theta**steps
        self._cos, self._sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
        self._tied: bool = config.get("tie_word_embeddings", False)
        self._shapes = self._expected(config)
        self.load(weights)

    def _expected(self, config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        q, kv = self.heads * self.size, self.kv_heads * self.size
        layer = {
            "self_attn.q_proj": (q, hidden),
            "self_attn.k_proj": (kv, hidden),
            "self_attn.v_proj": (kv, hidden),
            "self_attn.o_proj": (hidden, q),
            "self_attn.q_norm": (self.size,),
            "self_attn.k_norm": (self.size,),
            "mlp.gate_proj": (inner, hidden),
            "mlp.up_proj": (inner, hidden),
            "mlp.down_proj": (hidden, inner),
            "input_layernorm": (hidden,),
            "post_attention_layernorm": (hidden,),
        }
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (self.vocab, hidden)}
        shapes |= {
            f"model.layers.{i}.{name}.weight": shape
            for i in range(self.layers)
            for name, shape in layer.items()
        }
        shapes["model.norm.weight"] = (hidden,)
        if not self._tied:
            shapes["lm_head.weight"] = (self.vocab, hidden)
        return shapes

    def load(self, weights: Mapping[str, Array]) -> None:
        """Take other weights of the same shapes.

        Raises:
            ConfigError: an array is missing or has another shape; the old weights stay.
        """
        for name, shape in self._shapes.items():
            if name not in weights:
                raise ConfigError(f"the weights have no {name!r}; give a whole state dict of this model")
            if weights[name].shape != shape:
                raise ConfigError(f"{name} has shape {weights[name].shape}, this model needs {shape}")
        self.weights = {name: weights[name] for name in self._shapes}
        w = {name.removesuffix(".weight"): array for name, array in self.weights.items()}
        self._embed, self._norm = w["model.embed_tokens"], w["model.norm"]
        self._head = np.ascontiguousarray((self._embed if self._tied else w["lm_head"]).T)
        self._blocks = [
            _Block({k.split(".", 3)[3]: v for k, v in w.items() if k.startswith(f"model.layers.{i}.")})
            for i in range(self.layers)
        ]

    def cache(self, slots: int) -> Cache:
        """An empty cache."""
        return Cache(self.layers, slots, self.kv_heads, self.size)

    def prefill(
        self, ids: NDArray[np.int32], cache: Cache | None = None, slot: int = 0, *, every: bool = False
    ) -> Array:
        """Run one sequence from its start.

        Returns:
            float32[vocab], the logits after the last token; float32[n, vocab] for all positions if `every`.
        """
        n = len(ids)
        if cache is not None:
            cache.reserve(n + 1)
        x = self._embed[ids]
        for index, block in enumerate(self._blocks):
            q, k, v = self._project(block, x, np.arange(n))
            k, v = k.swapaxes(0, 1), v.swapaxes(0, 1)
            if cache is not None:
                cache.data[index, 0, slot, :, :n], cache.data[index, 1, slot, :, :n] = k, v
            x = x + self._causal(q, k, v) @ block.out
            x = x + self._feed(block, x)
        return self._logits(x if every else x[-1])

    def step(self, ids: NDArray[np.int32], positions: NDArray[np.int64], cache: Cache) -> Array:
        """One token more of the sequences in the first rows of the cache.

        Args:
            ids: int32[b], the newest token of each.
            positions: int64[b], where it stands.

        Returns:
            float32[b, vocab].
        """
        b, longest = len(ids), int(positions.max()) + 1
        cache.reserve(longest)
        rows = np.arange(b)
        beyond = np.where(np.arange(longest) > positions[:, None], np.float32(-np.inf), np.float32(0))
        x = self._embed[ids]
        for index, block in enumerate(self._blocks):
            q, k, v = self._project(block, x, positions)
            cache.data[index, 0, rows, :, positions], cache.data[index, 1, rows, :, positions] = k, v
            keys, values = cache.data[index, 0, :b, :, :longest], cache.data[index, 1, :b, :, :longest]
            grouped = q.reshape(b, self.kv_heads, -1, self.size)
            scores = grouped @ keys.swapaxes(-1, -2) + beyond[:, None, None, :]
            attended = _attended(scores, values).reshape(b, -1)
            x = x + attended @ block.out
            x = x + self._feed(block, x)
        return self._logits(x)

    def _project(self, block: _Block, x: Array, positions: NDArray[np.int64]) -> tuple[Array, Array, Array]:
        """Queries [n, heads, size], keys and values [n, kv_heads, size]."""
        joint = self._rms(x, block.before) @ block.qkv
        heads = joint.reshape(len(x), -1, self.size)
        q, k, v = np.split(heads, [self.heads, self.heads + self.kv_heads], axis=1)
        cos, sin = self._cos[positions][:, None], self._sin[positions][:, None]
        return (
            _rotate(self._rms(q, block.q_norm), cos, sin) * self.size**-0.5,
            _rotate(self._rms(k, block.k_norm), cos, sin),
            v,
        )

    def _causal(self, q: Array, k: Array, v: Array) -> Array:
        """Attention of a whole sequence, some rows at a time. q [n, heads, size], k and v [kv_heads, n, size]."""
        n, groups = len(q), self.heads // self.kv_heads
        grouped = np.ascontiguousarray(q.reshape(n, self.kv_heads, groups, self.size).transpose(1, 2, 0, 3))
        keys, v = np.ascontiguousarray(k.swapaxes(-1, -2)), np.ascontiguousarray(v)
        out = np.empty((n, self.kv_heads, groups, self.size), np.float32)
        for begin in range(0, n, _CHUNK):
            end = min(begin + _CHUNK, n)
            rows = end - begin
            scores = grouped[:, :, begin:end].reshape(self.kv_heads, -1, self.size) @ keys[:, :, :end]
            scores.reshape(self.kv_heads, groups, rows, end)[..., begin:] += _AFTER[:rows, :rows]
            found = _attended(scores, v[:, :end]).reshape(self.kv_heads, groups, rows, self.size)
            out[begin:end] = found.transpose(2, 0, 1, 3)
        return out.reshape(n, -1)

    def _feed(self, block: _Block, x: Array) -> Array:
        gate, up = np.split(self._rms(x, block.after) @ block.gate_up, 2, axis=-1)
        passed = np.negative(gate)
        np.exp(passed, out=passed)
        passed += 1
        np.divide(gate, passed, out=passed)
        passed *= up
        product: Array = passed @ block.down
        return product

    def _rms(self, x: Array, weight: Array) -> Array:
        squares = np.einsum("...i,...i->...", x, x)[..., None] / np.float32(x.shape[-1])
        scaled: Array = x / np.sqrt(squares + np.float32(self._eps))
        scaled *= weight
        return scaled

    def _logits(self, x: Array) -> Array:
        logits: Array = self._rms(x, self._norm) @ self._head
        return logits


class _Block:
    """One layer's arrays, transposed and joined so that few products are needed."""

    def __init__(self, w: Mapping[str, Array]) -> None:
        self.qkv: Array = np.concatenate([w[f"self_attn.{name}_proj"] for name in "qkv"]).T.copy()
        self.out: Array = w["self_attn.o_proj"].T.copy()
        self.gate_up: Array = np.concatenate([w["mlp.gate_proj"], w["mlp.up_proj"]]).T.copy()
        self.down: Array = w["mlp.down_proj"].T.copy()
        self.q_norm, self.k_norm = w["self_attn.q_norm"], w["self_attn.k_norm"]
        self.before, self.after = w["input_layernorm"], w["post_attention_layernorm"]


def _rotate(x: Array, cos: Array, sin: Array) -> Array:
    a, b = np.split(x, 2, axis=-1)
    turned = np.empty_like(x)
    first, second = np.split(turned, 2, axis=-1)
    np.multiply(a, cos, out=first)
    first -= b * sin
    np.multiply(b, cos, out=second)
    second += a * sin
    return turned


def _attended(scores: Array, values: Array) -> Array:
    """Means of the values, weighted by the softmax of their scores (which are overwritten)."""
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    found: Array = scores @ values
    found /= scores.sum(axis=-1, keepdims=True)
    return found
