#!/usr/bin/env python3
"""Compares what rondo wrote with PyTorch's own run; exits with 1 if a tensor is off.

    check_with_torch.py --model DIR --ids IDS.safetensors --ours OUT.safetensors [--dtype f32|f16|bf16]
    check_with_torch.py --tp IN.safetensors --ours OUT.safetensors [--heads H] [--norm pre|post]

The first form takes a Qwen3 checkpoint in transformers' format, ids (tensor input_ids) and the output of
`rondo fsdp run` (logits, loss, grad.NAME); --dtype is the type rondo computed in, f32 unless given. The second takes
the input (x, wq, wk, wv, w1, w2) and output (out, loss, grad.NAME) of `rondo tp layer`, in f32. Install what
make_golden.py, beside this file, needs.

A difference is |ours - theirs| / |theirs|, Euclidean norms of a whole tensor. In f32 it may be 1e-5. In f16 and bf16
both sides are compared with f32 run on the same rounded weights: ours may be off by 2e-3 and 1.4e-2, or by twice what
transformers in that type is off by, if that is more.
"""

import argparse
import copy
import sys

import torch
from safetensors.torch import load_file
from transformers import Qwen3ForCausalLM

from make_golden import model_run, tp_run

TYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
TOLERANCE = {"f32": 1e-5, "f16": 2e-3, "bf16": 1.4e-2}


def difference(ours, truth, floor=0.0):
    return ((ours.double() - truth.double()).norm() / max(truth.double().norm().item(), floor)).item()


def model_limits(options):
    """The f32 run, and for each tensor how far off rounding to options.dtype alone puts transformers."""
    ids = load_file(options.ids)["input_ids"]
    model = Qwen3ForCausalLM.from_pretrained(options.model, dtype=TYPES[options.dtype])
    truth = model_run(copy.deepcopy(model).float(), ids)
    rounded = truth if options.dtype == "f32" else model_run(model, ids)
    return truth, {name: difference(rounded[name], truth[name]) for name in truth}, {}


def tp_limits(options):
    """The f64 run. With post-norm the mean of the output and its gradients are 0, so differences need a floor."""
    tensors = {name: tensor.double() for name, tensor in load_file(options.tp).items()}
    inputs = {name: tensors[name] for name in ("x", "wq", "wk", "wv", "w1", "w2")}
    truth = tp_run(inputs, options.heads, options.norm)
    size = truth["out"].numel() ** 0.5
    floors = {name: 1 / size for name in truth} | {"loss": truth["out"].norm().item() / size}
    return truth, dict.fromkeys(truth, 0.0), floors


def compare(ours, truth, rounding, floors, tolerance):
    good = True
    print(f"{'tensor':<56} {'ours':>9} {'pytorch':>9} {'limit':>9}")
    for name, expected in truth.items():
        found, limit = ours.get(name), max(tolerance, 2 * rounding[name])
        if found is None or found.numel() != expected.numel():
            shape = "missing" if found is None else f"shape {list(found.shape)} instead of {list(expected.shape)}"
            print(f"{name:<56} {shape}")
            good = False
            continue
        off = difference(found.reshape(expected.shape), expected.detach(), floors.get(name, 0.0))
        within = off <= limit  # false for NaN
        print(f"{name:<56} {off:9.1e} {rounding[name]:9.1e} {limit:9.1e}{'' if within else '  OFF'}")
        good = good and within
    for name in sorted(ours.keys() - truth.keys()):
        print(f"{name:<56} not compared: PyTorch has no such tensor")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--model", help="checkpoint folder")
    what.add_argument("--tp", help="input file of `rondo tp layer`")
    parser.add_argument("--ids", help="file with input_ids, for --model")
    parser.add_argument("--ours", required=True, help="file that rondo wrote")
    parser.add_argument("--dtype", choices=TYPES, default="f32")
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--norm", choices=("pre", "post"), default="pre")
    options = parser.parse_args()
    if options.model and not options.ids:
        parser.error("--model needs --ids")
    torch.set_num_threads(1)
    truth, rounding, floors = model_limits(options) if options.model else tp_limits(options)
    good = compare(load_file(options.ours), truth, rounding, floors, TOLERANCE[options.dtype])
    print("all within the limits" if good else "NOT within the limits")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
