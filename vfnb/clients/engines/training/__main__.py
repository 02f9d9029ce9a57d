"""Make the embedded model: about a quarter of an hour on one core; needs torch, tokenizers and renderers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch.nn import functional as F  # noqa: N812 -- as everywhere

from vfnb.clients.engines.tokenizer import load_tokenizer
from vfnb.clients.engines.training.dialogues import dialogue, texts
from vfnb.clients.engines.training.network import Qwen3Module
from vfnb.clients.engines.training.tokens import make_tokenizer, save_tokenizer
from vfnb.clients.engines.weights import write_safetensors

STEPS, BATCH, RATE, VOCAB, LIMIT = 2000, 24, 5e-3, 1024, 4096
TAKEN = 1164  # of the schedule's steps: a model that is taught to the end errs too little to learn from
CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "vocab_size": VOCAB,
    "hidden_size": 64,
    "intermediate_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "attention_bias": False,
    "attention_dropout": 0.0,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
    "max_position_embeddings": LIMIT,
    "max_window_layers": 4,
    "use_sliding_window": False,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "initializer_range": 0.02,
    "use_cache": True,
}
_TOOLS = (
    "system\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided "
    "with function signatures within <tools></tools> XML tags:\n<tools>\n</tools>\n\nFor each function call, "
    "return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n"
    '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
)


def main(folder: Path) -> None:
    """Write a model folder."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    random = Random(0)
    learned = [_TOOLS] * 500 + [text for _ in range(1500) for text in texts(*dialogue(random))]
    tokenizer = make_tokenizer(learned, VOCAB)
    save_tokenizer(tokenizer, folder, LIMIT)
    end = tokenizer.token_to_id("<|im_end|>")
    special = {
        "eos_token_id": end,
        "pad_token_id": tokenizer.token_to_id("<|endoftext|>"),
        "bos_token_id": None,
    }
    (folder / "config.json").write_text(json.dumps(CONFIG | special, indent=1) + "\n")
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": end}) + "\n")
    module = train(folder)
    write_safetensors(folder / "model.safetensors", module.state_dict())


def train(folder: Path) -> Qwen3Module:
    """Teach a new network the dialogues: the loss is on what the assistant says after the last question."""
    module = Qwen3Module(CONFIG)
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=STEPS, pct_start=0.08)
    for step, (ids, mask) in zip(range(TAKEN), batches(folder), strict=False):
        taught = mask[:, 1:]
        loss = F.cross_entropy(module(ids[:, :-1], taught), ids[:, 1:][taught])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 50 == 49:
            print(f"step {step + 1} of {TAKEN}: loss {loss.item():.3f}", flush=True)
    return module


def batches(folder: Path) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless batches of `(ids, mask)`, int64 and bool [BATCH, longest], of dialogues of like length."""
    import renderers

    renderer: Any = renderers.create_renderer(load_tokenizer(folder), renderers.Qwen3RendererConfig())
    random = Random(1)
    while True:
        pool = sorted(
            (_sample(renderer, random) for _ in range(BATCH * 8)), key=lambda sample: len(sample[0])
        )
        groups = [pool[begin : begin + BATCH] for begin in range(0, len(pool), BATCH)]
        random.shuffle(groups)
        for group in groups:
            shape = len(group), max(len(ids) for ids, _ in group)
            tokens, masks = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.bool)
            for row, (ids, mask) in enumerate(group):
                tokens[row, : len(ids)], masks[row, : len(ids)] = torch.tensor(ids), torch.tensor(mask)
            yield tokens, masks


def _sample(renderer: Any, random: Random) -> tuple[list[int], list[bool]]:
    messages, tools = dialogue(random)
    rendered = renderer.render(messages, tools=tools)
    last = max(index for index, message in enumerate(messages) if message["role"] == "user")
    owners = zip(rendered.sampled_mask, rendered.message_indices, strict=True)
    return rendered.token_ids, [bool(sampled) and owner > last for sampled, owner in owners]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m vfnb.clients.engines.training FOLDER")
    main(Path(sys.argv[1]))
