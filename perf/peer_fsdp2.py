"""The peer of the model step: transformers' Qwen3ForCausalLM under PyTorch FSDP2 over Gloo, at the widths of
document 1, one thread a rank.

usage: peer_fsdp2.py RANKS LAYERS STEPS f32|bf16|f16
prints the median time of forward and backward, on rank 0, in milliseconds.
"""

import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from peer_torch import run_ranks

VOCABULARY, SAMPLES, LENGTH = 512, 2, 8
WARMUP = 3
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def make_model(ranks, layers, dtype):
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=512,
            intermediate_size=1024,
            num_hidden_layers=layers,
            num_attention_heads=8,
            num_key_value_heads=4,
            head_dim=64,
            max_position_embeddings=64,
            tie_word_embeddings=True,
        )
    )
    mesh = init_device_mesh("cpu", (ranks,))
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def forward_and_backward(model, ids):
    logits = model(input_ids=ids).logits[:, :-1].float()
    loss = torch.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), ids[:, 1:].reshape(-1))
    loss.backward()


def body(rank, ranks, layers, steps, type_name):
    model = make_model(ranks, layers, TYPES[type_name])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    torch.manual_seed(rank)
    ids = torch.randint(0, VOCABULARY, (SAMPLES, LENGTH))
    times = []
    for step in range(WARMUP + steps):
        dist.barrier()
        start = time.perf_counter()
        forward_and_backward(model, ids)
        times.append((time.perf_counter() - start) * 1e3)
        optimizer.step()
        optimizer.zero_grad()
    if rank == 0:
        print(f"median {statistics.median(times[WARMUP:]):.2f} ms of {steps} steps", flush=True)


if __name__ == "__main__":
    run_ranks(int(sys.argv[1]), body, int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
