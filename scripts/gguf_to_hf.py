"""Turn a small Llama GGUF file into a Hugging Face model folder that vLLM loads.

Run it with the Python of the vLLM environment (it needs gguf, torch, safetensors and tokenizers):

    python gguf_to_hf.py MODEL.gguf OUT_FOLDER

What GGUF changed on the way in is undone here: quantised blocks are expanded to bfloat16, tensors get their
Llama names back, and the rows of the q and k projections go back from llama.cpp's interleaved rotary order.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
CONTROL_TOKEN = 3  # GGUF token type of <|im_start|> and the like


def metadata(reader: GGUFReader) -> dict[str, Any]:
    return {name: field.contents() for name, field in reader.fields.items()}


def llama_name(name: str) -> str:
    """`blk.3.attn_q.weight` -> `model.layers.3.self_attn.q_proj.weight`."""
    *block, part, kind = name.split(".")
    prefix = f"model.layers.{block[1]}." if block else ""
    return f"{prefix}{NAMES[part]}.{kind}"


def rotary_order(weight: np.ndarray, heads: int) -> np.ndarray:
    """Rows (head, pair, 2) -> (head, 2, pair): the inverse of llama.cpp's conversion."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def tensors(reader: GGUFReader, meta: dict[str, Any]) -> dict[str, torch.Tensor]:
    heads = {
        "attn_q": meta["llama.attention.head_count"],
        "attn_k": meta["llama.attention.head_count_kv"],
    }
    result = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            weight = rotary_order(weight, heads[part])
        result[llama_name(tensor.name)] = torch.from_numpy(weight.copy()).to(torch.bfloat16)
    return result


def config(meta: dict[str, Any], tied: bool) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_act": "silu",
        "hidden_size": meta["llama.embedding_length"],
        "intermediate_size": meta["llama.feed_forward_length"],
        "num_hidden_layers": meta["llama.block_count"],
        "num_attention_heads": meta["llama.attention.head_count"],
        "num_key_value_heads": meta["llama.attention.head_count_kv"],
        "max_position_embeddings": meta["llama.context_length"],
        "rms_norm_eps": float(meta["llama.attention.layer_norm_rms_epsilon"]),
        "rope_theta": float(meta["llama.rope.freq_base"]),
        "vocab_size": len(meta["tokenizer.ggml.tokens"]),
        "bos_token_id": meta["tokenizer.ggml.bos_token_id"],
        "eos_token_id": end_of_turn(meta),
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
    }


def end_of_turn(meta: dict[str, Any]) -> int:
    return int(meta["tokenizer.ggml.tokens"].index("<|im_end|>"))


def tokenizer(meta: dict[str, Any]) -> Tokenizer:
    """The byte-level BPE of the file, with digits split one by one as SmolLM2 was trained."""
    tokens, kinds = meta["tokenizer.ggml.tokens"], meta["tokenizer.ggml.token_type"]
    merges = [tuple(merge.split(" ", 1)) for merge in meta["tokenizer.ggml.merges"]]
    result = Tokenizer(models.BPE({token: index for index, token in enumerate(tokens)}, merges))
    result.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    result.decoder = decoders.ByteLevel()
    special = [t for t, kind in zip(tokens, kinds, strict=True) if kind == CONTROL_TOKEN]
    result.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return result


def convert(source: Path, target: Path) -> None:
    reader = GGUFReader(source)
    meta = metadata(reader)
    weights = tensors(reader, meta)
    target.mkdir(parents=True, exist_ok=True)
    save_file(weights, target / "model.safetensors", metadata={"format": "pt"})
    tokenizer(meta).save(str(target / "tokenizer.json"))
    files = {
        "config.json": config(meta, tied="lm_head.weight" not in weights),
        "generation_config.json": {"eos_token_id": end_of_turn(meta)},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "bos_token": "<|im_start|>",
            "unk_token": "<|endoftext|>",
            "model_max_length": meta["llama.context_length"],
            "clean_up_tokenization_spaces": False,
            "chat_template": meta["tokenizer.chat_template"],
        },
    }
    for name, content in files.items():
        (target / name).write_text(json.dumps(content, indent=2))


if __name__ == "__main__":
    convert(Path(sys.argv[1]), Path(sys.argv[2]))
