"""The Qwen3 architecture in PyTorch, with parameters under the names of Hugging Face checkpoints.

For training: `Embedded.module()` gives one with the engine's weights, `Embedded.load(module.state_dict())` takes
them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- as everywhere

__all__ = ["Qwen3Module"]


class _Norm(nn.Module):
    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self._eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight, self._eps)


class _Attention(nn.Module):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self._heads, self._kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self._size = size = config["head_dim"]
        self.q_proj = nn.Linear(hidden, self._heads * size, bias=False)
        self.k_proj = nn.Linear(hidden, self._kv_heads * size, bias=False)
        self.v_proj = nn.Linear(hidden, self._kv_heads * size, bias=False)
        self.o_proj = nn.Linear(self._heads * size, hidden, bias=False)
        self.q_norm, self.k_norm = _Norm(size, eps), _Norm(size, eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        shape = (*x.shape[:2], -1, self._size)
        q = _rotate(self.q_norm(self.q_proj(x).view(shape)).transpose(1, 2), cos, sin)
        k = _rotate(self.k_norm(self.k_proj(x).view(shape)).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(shape).transpose(1, 2)
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        mixed: Tensor = self.o_proj(out.transpose(1, 2).flatten(2))
        return mixed


class _Feed(nn.Module):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        product: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return product


class _Layer(nn.Module):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn, self.mlp = _Attention(config), _Feed(config)
        self.input_layernorm, self.post_attention_layernorm = _Norm(hidden, eps), _Norm(hidden, eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        y: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return y


class _Body(nn.Module):
    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList(_Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = _Norm(config["hidden_size"], config["rms_norm_eps"])


class Qwen3Module(nn.Module):
    """The network, with tied embeddings.

    Args:
        config: `config.json` of a Hugging Face folder.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__()
        self.model = _Body(config)
        self._size: int = config["head_dim"]
        self._theta: float = config["rope_parameters"]["rope_theta"]
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        nn.init.normal_(self.model.embed_tokens.weight, std=0.05)

    def forward(self, ids: Tensor, at: Tensor | None = None) -> Tensor:
        """Logits float32[b, t, vocab] of ids int64[b, t]; with `at`, bool[b, t], only those of some positions."""
        steps = torch.arange(0, self._size, 2, dtype=torch.float64) / self._size
        angles = torch.arange(ids.shape[1])[:, None] / self._theta**steps
        cos, sin = angles.cos().float(), angles.sin().float()
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, cos, sin)
        logits: Tensor = self.model.norm(x if at is None else x[at]) @ self.model.embed_tokens.weight.T
        return logits


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)
