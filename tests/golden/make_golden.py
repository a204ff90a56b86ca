#!/usr/bin/env python3
"""Makes the golden files of this folder with PyTorch and transformers.

Install and run (about 6 GB on disk; a few minutes on two cores; no accelerator needed):

    python3 -m venv oracle
    oracle/bin/pip install torch transformers numpy safetensors
    oracle/bin/python make_golden.py --out DIR [--only NAME]

Weights and inputs come from a generator that any language can repeat bit for bit. Element i (flat, row-major) of the
tensor NAME, everything modulo 2^64:

    key = FNV-1a 64 of NAME in UTF-8        (offset 0xcbf29ce484222325, prime 0x100000001b3)
    bits = splitmix64(key + i)              z = x + 0x9E3779B97F4A7C15
                                            z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
                                            z = (z ^ (z >> 27)) * 0x94D049BB133111EB
                                            z ^ (z >> 31)
    unit = 2 * (bits >> 40) * 2^-24 - 1     in [-1, 1), exact in f32
    value = unit * scale                    one f32 rounding; f16 and bf16 weights are this value rounded once more

    scale of a matrix      f32(1 / sqrt(fan_in)): its second dimension; in the tensor-parallel block its first
    scale of an embedding  0.5
    scale of an input x, an upstream gradient g       1
    one-dimensional (norm) weights                    1 + unit * f32(0.1): product rounded, then the sum (no fma)
    token ids                                         (bits >> 40) % vocabulary

NAME is the name transformers gives the parameter (within the layer for layer_doc1), "x", "g", "input_ids" or "wq".

A tensor too large to store is stored as a sketch: 64 signed sums whose norm is about the tensor's norm,

    sketch[k] = sum_i sign(k, i) * tensor[i] / 8, in f64
    sign(k, i) = -1 if the top bit of splitmix64(FNV-1a(NAME + ".sketch") + k * 2^32 + i) is set, else +1

so the norm of the difference of two sketches, over the norm of one, estimates the relative difference of the tensors.
"""

import argparse
import json
import pathlib
import tempfile

import numpy as np
import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import Qwen3Config, Qwen3ForCausalLM
from transformers.utils import logging

SKETCHES = 64
SHORT = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


# The generator and the sketch

def fnv(name):
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    return key


def splitmix(start, count):
    z = np.arange(count, dtype=np.uint64) + np.uint64((start + 0x9E3779B97F4A7C15) % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def unit(name, shape):
    bits = splitmix(fnv(name), int(np.prod(shape))) >> np.uint64(40)
    return torch.from_numpy((bits.astype(np.float32) * np.float32(2**-23) - np.float32(1)).reshape(shape))


def scaled(name, shape, fan_in):
    return unit(name, shape) * float(np.float32(1 / np.sqrt(fan_in)))


def weight(name, shape):
    if len(shape) == 1:
        return unit(name, shape) * float(np.float32(0.1)) + 1
    return unit(name, shape) * 0.5 if "embed_tokens" in name else scaled(name, shape, shape[1])


def token_ids(shape, vocabulary):
    bits = splitmix(fnv("input_ids"), int(np.prod(shape))) >> np.uint64(40)
    return torch.from_numpy((bits % np.uint64(vocabulary)).astype(np.int64).reshape(shape))


def sketch(name, tensor):
    flat, key = tensor.detach().double().flatten().numpy(), fnv(name + ".sketch")
    sums = [np.where(splitmix(key + (k << 32), flat.size) >> np.uint64(63), -flat, flat).sum() for k in range(SKETCHES)]
    return torch.tensor(sums, dtype=torch.float64) / 8


def sketches(prefix, tensors):
    found = {}
    for name, tensor in tensors.items():
        found[f"{prefix}{name}.sketch"] = sketch(name, tensor)
        found[f"{prefix}{name}.norm"] = tensor.detach().double().norm()
    return found


# Comparing and saving

def difference(ours, theirs):
    return ((ours.double() - theirs.double()).norm() / theirs.double().norm()).item()


def worst(ours, theirs):
    return max(difference(ours[name], tensor) for name, tensor in theirs.items())


def agree(what, found, limit):
    print(f"  {what}: {found:.1e}")
    assert found < limit, f"{what}: {found} is above {limit}"


def save(path, tensors, config, finite=True, **more):
    if finite:
        assert all(tensor.isfinite().all() for tensor in tensors.values())
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    save_file(tensors, path, metadata={"config": json.dumps(config | more)})  # one entry: their order is random
    path.chmod(0o644)


# Models

def qwen3(hidden, layers, heads, kv_heads, head_dim, ffn, vocabulary, tied, theta=10000.0, eps=1e-6):
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": vocabulary, "hidden_size": hidden,
        "intermediate_size": ffn, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": head_dim, "hidden_act": "silu", "rms_norm_eps": eps,
        "max_position_embeddings": 64, "attention_bias": False, "tie_word_embeddings": tied,
        "rope_parameters": {"rope_type": "default", "rope_theta": theta},
    }


def build(config, prefix=""):
    model = Qwen3ForCausalLM(Qwen3Config(**config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weight(name.removeprefix(prefix), parameter.shape))
    return model


def gradients(module):
    full = {name: p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
            for name, p in module.named_parameters()}
    return {name: grad.detach() for name, grad in full.items()}


def model_step(model, ids):
    output = model(input_ids=ids, labels=ids, use_cache=False)
    output.loss.backward()
    return output.logits.detach(), output.loss.detach()


def model_run(model, ids):
    logits, loss = model_step(model, ids)
    return {"logits": logits, "loss": loss} | {f"grad.{name}": grad for name, grad in gradients(model).items()}


# FSDP2 on Gloo processes

def rank_main(rank, ranks, folder, job, args):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    torch.save(job(rank, ranks, *args), f"{folder}/{rank}")
    dist.destroy_process_group()


def on_ranks(ranks, job, *args):
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(rank_main, (ranks, folder, job, args), nprocs=ranks)
        return [torch.load(f"{folder}/{rank}") for rank in range(ranks)]


def mine(rank, ranks, samples):
    return samples.chunk(ranks)[rank].clone()


def shards(module):
    return {name: list(parameter.to_local().shape) for name, parameter in module.named_parameters()}


def record(log):
    """Appends each of FSDP2's collectives to log: what, of which unit (its first parameter), type, elements in, out."""
    from torch.distributed.fsdp._fully_shard import _fsdp_param_group as inside
    unit_name = []

    def of_unit(function):
        def outer(params, *args, **kwargs):
            unit_name[:] = [params[0]._param_fqn]
            return function(params, *args, **kwargs)
        return outer

    def logged(what, function):
        def outer(*args, **kwargs):
            output, given = [*args, *(value for value in kwargs.values() if torch.is_tensor(value))][:2]
            log.append([what, unit_name[0], str(given.dtype), given.numel(), output.numel()])
            return function(*args, **kwargs)
        return outer

    for name in "foreach_all_gather", "foreach_reduce":
        setattr(inside, name, of_unit(getattr(inside, name)))
    for what, names in {"all-gather": ("all_gather_single", "all_gather_into_tensor"),
                        "reduce-scatter": ("reduce_scatter_single", "reduce_scatter_tensor")}.items():
        name = next(name for name in names if hasattr(dist, name))
        setattr(dist, name, logged(what, getattr(dist, name)))


def shard_model(model, ranks):
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)


# 1. One decoder layer at the sizes of the walkthrough

LAYER = qwen3(hidden=512, layers=1, heads=8, kv_heads=4, head_dim=64, ffn=1024, vocabulary=8, tied=True)
LAYER_RANKS, LAYER_INPUT = 4, (8, 8, 512)


def layer_parts():
    model = build(LAYER, prefix="model.layers.0.").model
    return model.layers[0], model.rotary_emb, unit("x", LAYER_INPUT), unit("g", LAYER_INPUT)


def layer_step(layer, rotary, x, g):
    x.requires_grad_()
    out = layer(x, position_embeddings=rotary(x, torch.arange(x.shape[1])[None]))
    (out.float() * g).sum().backward()
    return out.detach(), x.grad


def layer_one(dtype):
    layer, rotary, x, g = layer_parts()
    out, x_grad = layer_step(layer.to(dtype), rotary, x.to(dtype), g / x.shape[0])
    return out, x_grad, gradients(layer)


def layer_job(rank, ranks, dtype):
    layer, rotary, x, g = layer_parts()
    fully_shard(layer.to(dtype), mesh=init_device_mesh("cpu", (ranks,)), reshard_after_forward=True)
    x, log = mine(rank, ranks, x.to(dtype)), []
    record(log)
    out, _ = layer_step(layer, rotary, x, mine(rank, ranks, g) / x.shape[0])
    return {"out": out, "shards": shards(layer), "collectives": list(log), "grads": gradients(layer)}


def assert_causal():
    layer, rotary, x, g = layer_parts()
    changed = x.clone()
    changed[:, -1] += 1
    first, second = layer_step(layer, rotary, x, g)[0], layer_step(layer, rotary, changed, g)[0]
    assert difference(first[:, :-1], second[:, :-1]) < 1e-6 < difference(first[:, -1], second[:, -1])


def layer_doc1(path):
    assert_causal()
    truth = layer_one(torch.float32)
    tensors, fsdp = {"out": truth[0], "x.grad": truth[1]}, {}
    tensors |= {f"{name}.row0": grad[0] if grad.dim() > 1 else grad for name, grad in truth[2].items()}
    for dtype, limit in (torch.float32, 1e-5), (torch.float16, 2e-2), (torch.bfloat16, 5e-2):
        kind, (out, _, one) = SHORT[dtype], layer_one(dtype)
        results = on_ranks(LAYER_RANKS, layer_job, dtype)
        together, averaged = torch.cat([result["out"] for result in results]), results[0]["grads"]
        agree(f"{kind} FSDP2 against one process, out", difference(together, out), limit)
        agree(f"{kind} FSDP2 against one process, gradients", worst(averaged, one), limit)
        agree(f"{kind} one process against f32, gradients", worst(one, truth[2]), limit)
        agree(f"{kind} FSDP2 against f32, gradients", worst(averaged, truth[2]), limit)
        found = worst(sketches("", averaged), sketches("", one))
        agree(f"{kind} FSDP2 against one process, sketches", found, 2 * limit)
        prefix = "" if dtype == torch.float32 else kind + "."
        tensors |= {f"{prefix}out": out} | sketches(prefix, one) | sketches(f"{prefix}fsdp.", averaged)
        fsdp[kind] = {"shards": [r["shards"] for r in results], "collectives": results[0]["collectives"]}
    for entry in fsdp["f16"]["collectives"]:
        print("  ", *entry)
    save(path, tensors, LAYER, fsdp=fsdp)


# 2. Small whole models, everything stored, and checkpoints for the loader

SMALL = {
    "qwen3_gqa1": qwen3(hidden=24, layers=3, heads=4, kv_heads=4, head_dim=8, ffn=20, vocabulary=11, tied=False),
    "qwen3_gqa2": qwen3(hidden=20, layers=3, heads=4, kv_heads=2, head_dim=10, ffn=21, vocabulary=11, tied=True,
                        theta=1e6, eps=1e-5),
    "qwen3_gqa4": qwen3(hidden=24, layers=3, heads=4, kv_heads=1, head_dim=4, ffn=20, vocabulary=11, tied=False,
                        theta=500.0),
}


def model_job(rank, ranks, config, ids):
    model, log = build(config), []
    shard_model(model, ranks)
    record(log)
    _, loss = model_step(model, mine(rank, ranks, ids))
    return {"loss": loss, "shards": shards(model), "collectives": list(log), "grads": gradients(model)}


def small_model(path):
    config, ids = SMALL[path.stem], token_ids((10, 7), 11)
    model, fsdp = build(config), {}
    weights = {name: parameter.clone() for name, parameter in model.named_parameters()}
    run = model_run(model, ids)
    if path.stem == "qwen3_gqa4":
        results = on_ranks(5, model_job, config, ids)
        loss = torch.stack([result["loss"] for result in results]).mean()
        agree("FSDP2 on 5 ranks against one process, loss", difference(loss, run["loss"]), 1e-5)
        agree("FSDP2 on 5 ranks against one process, gradients", worst(results[0]["grads"], gradients(model)), 1e-5)
        fsdp = {"shards": [result["shards"] for result in results], "collectives": results[0]["collectives"]}
    print(f"  loss {run['loss']:.4f}, gradient norms from {min(g.norm() for g in gradients(model).values()):.1e}")
    save(path, weights | {"input_ids": ids} | run, config, **({"fsdp": fsdp} if fsdp else {}))


def checkpoint(folder, config, dtype, ids, shard_size, edit=lambda config: None):
    build(config).to(dtype).save_pretrained(folder, max_shard_size=shard_size)
    stored = json.loads((folder / "config.json").read_text())
    edit(stored)
    (folder / "config.json").write_text(json.dumps(stored, indent=2, sort_keys=True) + "\n")
    run = model_run(Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32), ids)
    built = build(config)
    for parameter in built.parameters():  # not built.to(dtype), which rounds the frequencies of RoPE too
        parameter.data = parameter.data.to(dtype).float()
    agree("loaded against built", worst(run, model_run(built, ids)), 1e-6)
    if dtype != torch.float32:
        rounded = model_run(Qwen3ForCausalLM.from_pretrained(folder, dtype=dtype), ids)
        print(f"  {SHORT[dtype]} against f32, worst tensor: {worst(rounded, run):.1e}")
        run |= {f"{SHORT[dtype]}.{name}": tensor for name, tensor in rounded.items()}
    save(folder / "ids.safetensors", {"input_ids": ids}, config)
    save(folder / "expected.safetensors", run, config)


def checkpoint_sharded(folder):
    config = qwen3(hidden=12, layers=2, heads=4, kv_heads=2, head_dim=4, ffn=14, vocabulary=13, tied=False, theta=1e6)
    checkpoint(folder, config, torch.bfloat16, token_ids((6, 5), 13), "2KB")
    assert len(list(folder.glob("model-*.safetensors"))) > 2


def older_form(config):
    config["rope_theta"] = config.pop("rope_parameters")["rope_theta"]
    config["rope_scaling"] = None
    config["torch_dtype"] = config.pop("dtype")


def checkpoint_single(folder):
    config = qwen3(hidden=12, layers=2, heads=2, kv_heads=1, head_dim=6, ffn=10, vocabulary=13, tied=True, theta=2000.0)
    checkpoint(folder, config, torch.float32, token_ids((6, 5), 13), "1GB", older_form)


# 3. Twenty steps of training

TRAIN = qwen3(hidden=32, layers=2, heads=4, kv_heads=2, head_dim=8, ffn=48, vocabulary=256, tied=True)
TRAIN_STEPS, TRAIN_RANKS = 20, 4
ADAMW = {"lr": 1e-2, "betas": (0.9, 0.95), "eps": 1e-8, "weight_decay": 0.1}


def train_ids():
    """A rule to learn: each token is 5 times the one before plus 17 or 18, modulo 64."""
    ids = token_ids((TRAIN_STEPS, 8, 16), 64)
    for t in range(1, ids.shape[2]):
        ids[..., t] = (5 * ids[..., t - 1] + 17 + ids[..., t] % 2) % 64
    return ids


def train(model, ids):
    optimizer, losses = torch.optim.AdamW(model.parameters(), **ADAMW), []
    for batch in ids:
        optimizer.zero_grad()
        losses.append(model_step(model, batch)[1])
        optimizer.step()
    return torch.stack(losses)


def train_job(rank, ranks, ids):
    model, log = build(TRAIN), []
    shard_model(model, ranks)
    record(log)
    losses = train(model, ids.chunk(ranks, dim=1)[rank])
    return {"losses": losses, "collectives": log[:len(log) // TRAIN_STEPS],
            "parameters": {name: parameter.full_tensor().detach() for name, parameter in model.named_parameters()}}


def train_curve(path):
    model, ids = build(TRAIN), train_ids()
    losses, parameters = train(model, ids), {name: p.detach() for name, p in model.named_parameters()}
    results = on_ranks(TRAIN_RANKS, train_job, ids)
    fsdp_losses = torch.stack([result["losses"] for result in results]).mean(0)
    agree("FSDP2 on 4 ranks against one process, losses", difference(fsdp_losses, losses), 1e-5)
    agree("FSDP2 on 4 ranks against one process, parameters after 20 steps",
          worst(results[0]["parameters"], parameters), 1e-4)
    print(f"  loss from {losses[0]:.4f} to {losses[-1]:.4f}")
    for entry in results[0]["collectives"]:
        print("  ", *entry)
    save(path, {"input_ids": ids, "losses": losses, "fsdp.losses": fsdp_losses} | sketches("", parameters), TRAIN,
         adamw=ADAMW, fsdp={"collectives": results[0]["collectives"]})


# 4. The tensor-parallel block, on one process

TP = {"batch": 2, "tokens": 5, "hidden": 16, "heads": 4, "ffn": 64, "eps": 1e-5}


def tp_block(x, wq, wk, wv, w1, w2, heads, norm, eps=1e-5):
    def normed(t):
        return torch.nn.functional.layer_norm(t, t.shape[-1:], eps=eps)

    def attention(t):
        q, k, v = (((t @ w).unflatten(-1, (heads, -1))).transpose(1, 2) for w in (wq, wk, wv))
        weights = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, dim=-1)
        return (weights @ v).transpose(1, 2).flatten(2)

    def ffn(t):
        return torch.nn.functional.gelu(t @ w1) @ w2

    for part in attention, ffn:
        x = x + part(normed(x)) if norm == "pre" else normed(x + part(x))
    return x


def tp_run(tensors, heads, norm, g=None):
    inputs = {name: tensor.clone().requires_grad_() for name, tensor in tensors.items()}
    out = tp_block(**inputs, heads=heads, norm=norm)
    loss = out.mean() if g is None else (out * g).sum()
    loss.backward()
    return {"out": out, "loss": loss} | {f"grad.{name}": tensor.grad for name, tensor in inputs.items()}


def tp_file(path):
    shape, hidden, ffn = (TP["batch"], TP["tokens"], TP["hidden"]), TP["hidden"], TP["ffn"]
    tensors = {name: scaled(name, (hidden, hidden), hidden) for name in ("wq", "wk", "wv")}
    tensors |= {"w1": scaled("w1", (hidden, ffn), hidden), "w2": scaled("w2", (ffn, hidden), ffn)}
    tensors["x"], g, stored = unit("x", shape), unit("g", shape), {}
    for norm in "pre", "post":
        for prefix, upstream in (f"{norm}.", None), (f"{norm}.g.", g):
            run = tp_run(tensors, TP["heads"], norm, upstream)
            exact = tp_run({name: t.double() for name, t in tensors.items()}, TP["heads"], norm, upstream)
            if prefix != "post.":  # there the loss and all gradients are 0 but for rounding
                agree(f"{prefix} f32 against f64", worst(run, exact), 1e-5)
            stored |= {prefix + name: tensor for name, tensor in run.items() if g is not upstream or name != "out"}
    save(path, tensors | {"g": g} | stored, TP)


# 5. Conversions to f16 and bf16

def edges(dtype, infinity, step):
    """Every step-th value of the type, the halfway point to its successor, and the neighbours of that point in f32."""
    bits = torch.arange(0, infinity, step, dtype=torch.int16)
    value, successor = bits.view(dtype).double(), (bits + 1).view(dtype).double()
    successor = torch.where(successor.isinf(), 2 * value, successor)
    half = ((value + successor) / 2).float()
    return torch.cat([value.float(), half, half.nextafter(torch.tensor(0.0)), half.nextafter(torch.tensor(torch.inf))])


def numbers(path):
    special = [0.0, 65504.0, 65519.996, 65520.0, 65536.0, 2**-14, 2**-24, 2**-25, 2**-25 * (1 + 2**-23), 2**-26,
               1.5 * 2**-24, 2**-126, 2**-133, 2**-134, 2**-149, 3.3895314e38, 3.3961776e38, 3.4028235e38, torch.inf]
    nans = torch.tensor([0x7FC00000, 0x7F800001, 0x7FFFFFFF, 0x7FA00000], dtype=torch.int32).view(torch.float32)
    positive = torch.cat([torch.tensor(special), nans, edges(torch.float16, 0x7C00, 251),
                          edges(torch.bfloat16, 0x7F80, 127)])
    negative = (positive.view(torch.int32) | torch.tensor(-2**31, dtype=torch.int32)).view(torch.float32)
    both = torch.cat([positive, negative])
    rest = 4096 - len(both)
    random = torch.from_numpy((splitmix(fnv("numbers"), rest) >> np.uint64(32)).astype(np.uint32)).view(torch.float32)
    values = torch.cat([both, random])
    tensors = {"f32": values, "f16": values.half(), "bf16": values.bfloat16()}
    save(path, tensors, {"chosen": len(both), "random": rest}, finite=False)


FILES = {"layer_doc1": layer_doc1} | {name: small_model for name in SMALL} | {
    "checkpoint_sharded": checkpoint_sharded, "checkpoint_single": checkpoint_single, "train_curve": train_curve,
    "tp_block": tp_file, "numbers": numbers,
}


def main():
    parser = argparse.ArgumentParser(description="Makes the golden files (see the head of this file).")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder to write to")
    parser.add_argument("--only", choices=FILES, help="make this one alone")
    options = parser.parse_args()
    logging.disable_progress_bar()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in [options.only] if options.only else FILES:
        print(name, flush=True)
        FILES[name](options.out / (name if name.startswith("checkpoint") else name + ".safetensors"))


if __name__ == "__main__":
    main()
