"""GPT-2 in NumPy, from a safetensors file with Hugging Face's names and layouts.

It knows nothing of this project's names: what it computes is what others will compute from a file that
was exported here. Written after the description of GPT2LMHeadModel: Conv1D is x @ W + b with W stored
(inputs, outputs), c_attn gives queries, keys and values side by side, gelu is the tanh approximation.

    logits(path, tokens, heads)    (B, T, V) of tokens (B, T), in float64
"""

import math

import numpy as np
from safetensors.numpy import load_file


def load(path):
    """Tensors by name, as float64."""
    return {name: value.astype(np.float64) for name, value in load_file(path).items()}


def layer_norm(x, w, name):
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred**2).mean(-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def conv1d(x, w, name):
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def attention(x, w, name, heads):
    rows, positions, channels = x.shape
    size = channels // heads
    qkv = conv1d(x, w, f"{name}.c_attn")
    mixed = np.empty_like(x)
    future = np.triu(np.ones((positions, positions), bool), 1)
    for head in range(heads):
        q, k, v = (qkv[..., part * channels + head * size :][..., :size] for part in range(3))
        scores = np.einsum("bid,bjd->bij", q, k) / math.sqrt(size)
        scores[:, future] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        mixed[..., head * size : (head + 1) * size] = np.einsum("bij,bjd->bid", weights, v)
    return conv1d(mixed, w, f"{name}.c_proj")


def gelu_new(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def logits(path, tokens, heads):
    w = load(path)
    tokens = np.asarray(tokens)
    x = w["transformer.wte.weight"][tokens] + w["transformer.wpe.weight"][: tokens.shape[1]]
    block = 0
    while f"transformer.h.{block}.ln_1.weight" in w:
        name = f"transformer.h.{block}"
        x = x + attention(layer_norm(x, w, f"{name}.ln_1"), w, f"{name}.attn", heads)
        wide = gelu_new(conv1d(layer_norm(x, w, f"{name}.ln_2"), w, f"{name}.mlp.c_fc"))
        x = x + conv1d(wide, w, f"{name}.mlp.c_proj")
        block += 1
    x = layer_norm(x, w, "transformer.ln_f")
    return x @ w.get("lm_head.weight", w["transformer.wte.weight"]).T  # without: tied
