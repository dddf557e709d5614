#!/usr/bin/env python3
"""Second, independent implementation of docs/MATHEMATICS.md, in NumPy and float64.

It trains two small networks by that page alone, backward passes derived by hand, and writes what it
found to tests/golden/gpt.txt, which the test suite compares with the C++ implementation:

    gpt_numpy.py OUT            write the golden file
    gpt_numpy.py --check FILE   recompute everything; exit status 1 if FILE differs
    gpt_numpy.py --self-test    known answers of Philox and the sampler, and every gradient against finite differences

The file holds records: a line `name count`, then `count` numbers, eight per line; # starts a comment.

As a module: `logits(parameters, inputs, heads)` is the network without dropout, `forward` and `backward`
are its training passes, `train` is a whole run. Parameters are a dict from `layer/tensor` to an array.
Needs Python >= 3.10 and NumPy >= 2.
"""

import argparse
import functools
import math
import sys
from dataclasses import dataclass

import numpy as np

U64 = np.uint64
LOW = U64(0xFFFFFFFF)


# Random numbers ----------------------------------------------------------------------------------


def philox(counter, seed):
    """Philox4x32-10 of four counter words (broadcast against one another): words along the last axis."""
    x0, x1, x2, x3 = np.broadcast_arrays(*(np.asarray(word, U64) for word in counter))
    low, high = seed & 0xFFFFFFFF, seed >> 32
    for _ in range(10):
        a, b = U64(0xD2511F53) * x0, U64(0xCD9E8D57) * x2
        x0, x1, x2, x3 = (b >> U64(32)) ^ x1 ^ U64(low), b & LOW, (a >> U64(32)) ^ x3 ^ U64(high), a & LOW
        low, high = (low + 0x9E3779B9) & 0xFFFFFFFF, (high + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([x0, x1, x2, x3], axis=-1)


def words(count, microbatch, step, layer, site, seed):
    """The words of elements 0 .. count - 1, filled up to whole blocks of four: shape (blocks, 4)."""
    return philox((np.arange((count + 3) // 4), microbatch, step, layer * 65536 + site), seed)


@functools.lru_cache(256)
def dropout_factors(shape, probability, microbatch, step, layer, site, seed):
    """What dropout multiplies a tensor with: 0, or 1 / (1 - probability) where an element is kept."""
    count = math.prod(shape)
    uniform = (words(count, microbatch, step, layer, site, seed).reshape(-1)[:count] >> U64(8)) / 2.0**24
    return np.where(uniform >= probability, 1 / (1 - probability), 0.0).reshape(shape)


def normal(shape, deviation, layer, tensor, seed):
    count = math.prod(shape)
    w = words(count, 0, 0, layer, 32768 + tensor, seed).reshape(-1, 2)
    r = np.sqrt(-2 * np.log((w[:, 0] + 0.5) / 2.0**32))
    a = 2 * math.pi * (w[:, 1] + 0.5) / 2.0**32
    pairs = np.stack([r * np.cos(a), r * np.sin(a)], axis=-1)
    return (pairs.reshape(-1)[:count] * deviation).reshape(shape)


def permute(x, samples, q, seed):
    """P_q of every element of x: a Feistel network on 2 h bits, walked until the value is below `samples`."""
    h = max(1, ((samples - 1).bit_length() + 1) // 2)  # ceil(log2(samples) / 2), in integers
    mask = U64(2**h - 1)
    x = np.array(x, U64)
    walking = np.ones(x.shape, bool)
    while walking.any():
        left, right = x[walking] >> U64(h), x[walking] & mask
        for round_number in range(8):
            f = philox((right, round_number, q, 0xFFFF0000), seed)[..., 0] & mask
            left, right = right, left ^ f
        x[walking] = (left << U64(h)) + right
        walking = x >= U64(samples)
    return x.astype(np.int64)


# The network -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """The mathematics keys of a run."""

    microbatches: int
    lanes: int
    dropout: float
    tied: bool
    blocks: int = 2
    channels: int = 8
    heads: int = 2
    context: int = 5
    vocabulary: int = 11
    rows: int = 2  # per microbatch
    seed: int = 1234
    chunk_elements: int = 50
    learning_rate: float = 0.01
    final_rate: float = 0.001
    warmup_steps: int = 3
    decay_steps: int = 8
    beta1: float = 0.9
    beta2: float = 0.95
    epsilon: float = 1e-8
    weight_decay: float = 0.1
    clip_norm: float = 0.5

    @property
    def targets(self):
        """Targets per step, which the step's loss is divided by."""
        return self.microbatches * self.rows * self.context


def parameter_shapes(run):
    """Shapes of the owned parameters, by `layer/tensor`, in layer and tensor order."""
    c, v = run.channels, run.vocabulary
    shapes = {"embedding/token": (v, c), "embedding/position": (run.context, c)}
    for i in range(run.blocks):
        for name, shape in (
            ("norm_1.weight", (c,)), ("norm_1.bias", (c,)),
            ("attention.weight", (3 * c, c)), ("attention.bias", (3 * c,)),
            ("projection.weight", (c, c)), ("projection.bias", (c,)),
            ("norm_2.weight", (c,)), ("norm_2.bias", (c,)),
            ("expand.weight", (4 * c, c)), ("expand.bias", (4 * c,)),
            ("contract.weight", (c, 4 * c)), ("contract.bias", (c,)),
        ):  # fmt: skip
            shapes[f"block.{i}/{name}"] = shape
    shapes |= {"final_norm/weight": (c,), "final_norm/bias": (c,)}
    return shapes if run.tied else shapes | {"head/weight": (v, c)}


def is_norm_weight(name):
    return name.endswith(("/norm_1.weight", "/norm_2.weight")) or name == "final_norm/weight"


def initial_parameters(run):
    parameters, layers, tensor = {}, [], 0
    for name, shape in parameter_shapes(run).items():
        layer = name.split("/")[0]
        if layer not in layers:
            layers.append(layer)
            tensor = 0
        if len(shape) == 1:
            parameters[name] = np.full(shape, 1.0 if is_norm_weight(name) else 0.0)
        else:
            last = name.endswith(("/projection.weight", "/contract.weight"))
            deviation = 0.02 / math.sqrt(2 * run.blocks) if last else 0.02
            parameters[name] = normal(shape, deviation, len(layers) - 1, tensor, run.seed)
        tensor += 1
    return parameters


def linear_backward(dy, x, w):
    flat = dy.reshape(-1, dy.shape[-1])
    return dy @ w, flat.T @ x.reshape(-1, x.shape[-1]), flat.sum(0)


def norm(x, weight, bias):
    centred = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    unit = centred * scale
    return unit * weight + bias, (unit, scale)


def norm_backward(dy, weight, saved):
    unit, scale = saved
    du = dy * weight
    # Mean and variance depend on x too: take from du its parts along the ones vector and along unit.
    dx = scale * (du - du.mean(-1, keepdims=True) - unit * (du * unit).mean(-1, keepdims=True))
    return dx, (dy * unit).reshape(-1, len(weight)).sum(0), dy.reshape(-1, len(weight)).sum(0)


GELU = math.sqrt(2 / math.pi)


def gelu(x):
    return x / 2 * (1 + np.tanh(GELU * (x + 0.044715 * x**3)))


def gelu_backward(dy, x):
    t = np.tanh(GELU * (x + 0.044715 * x**3))
    return dy * ((1 + t) / 2 + x / 2 * (1 - t * t) * GELU * (1 + 3 * 0.044715 * x * x))


def split_heads(x, heads):
    """(B, T, C) to (B, H, T, d)."""
    return x.reshape(*x.shape[:2], heads, -1).swapaxes(1, 2)


def merge_heads(x):
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def attention(qkv, heads, factors):
    q, k, v = (split_heads(part, heads) for part in np.split(qkv, 3, axis=-1))
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
    positions = np.arange(q.shape[2])
    scores = np.where(positions <= positions[:, None], scores, -np.inf)
    a = np.exp(scores - scores.max(-1, keepdims=True))
    a /= a.sum(-1, keepdims=True)
    keep = factors(a.shape)
    return merge_heads((a * keep) @ v), (q, k, v, a, keep)


def attention_backward(dy, heads, saved):
    q, k, v, a, keep = saved
    dy = split_heads(dy, heads)
    da = dy @ v.swapaxes(-1, -2) * keep
    ds = a * (da - (da * a).sum(-1, keepdims=True)) / math.sqrt(q.shape[-1])
    parts = ds @ k, ds.swapaxes(-1, -2) @ q, (a * keep).swapaxes(-1, -2) @ dy
    return np.concatenate([merge_heads(part) for part in parts], axis=-1)


def block_forward(p, x, heads, factors):
    """p: the block's parameters by tensor name; factors(site, shape): the dropout factors of a site."""
    n1, s1 = norm(x, p["norm_1.weight"], p["norm_1.bias"])
    qkv = n1 @ p["attention.weight"].T + p["attention.bias"]
    mixed, sa = attention(qkv, heads, lambda shape: factors(0, shape))
    keep1 = factors(1, x.shape)
    x = x + (mixed @ p["projection.weight"].T + p["projection.bias"]) * keep1
    n2, s2 = norm(x, p["norm_2.weight"], p["norm_2.bias"])
    wide = n2 @ p["expand.weight"].T + p["expand.bias"]
    active = gelu(wide)
    keep2 = factors(2, x.shape)
    x = x + (active @ p["contract.weight"].T + p["contract.bias"]) * keep2
    return x, (n1, s1, mixed, sa, keep1, n2, s2, wide, active, keep2)


def block_backward(p, dx, heads, saved):
    n1, s1, mixed, sa, keep1, n2, s2, wide, active, keep2 = saved
    g = {}
    d, g["contract.weight"], g["contract.bias"] = linear_backward(dx * keep2, active, p["contract.weight"])
    d, g["expand.weight"], g["expand.bias"] = linear_backward(gelu_backward(d, wide), n2, p["expand.weight"])
    d, g["norm_2.weight"], g["norm_2.bias"] = norm_backward(d, p["norm_2.weight"], s2)
    dx = dx + d
    d, g["projection.weight"], g["projection.bias"] = linear_backward(dx * keep1, mixed, p["projection.weight"])
    d = attention_backward(d, heads, sa)
    d, g["attention.weight"], g["attention.bias"] = linear_backward(d, n1, p["attention.weight"])
    d, g["norm_1.weight"], g["norm_1.bias"] = norm_backward(d, p["norm_1.weight"], s1)
    return dx + d, g


def layer_parameters(parameters, layer):
    return {name.split("/")[1]: value for name, value in parameters.items() if name.startswith(layer + "/")}


def block_count(parameters):
    return sum(name.endswith("/norm_1.weight") for name in parameters)


def head_weight(parameters):
    return parameters.get("head/weight", parameters["embedding/token"])  # without a head of its own: tied


def no_dropout(layer, site, shape):
    return 1.0


def forward(parameters, inputs, heads, factors=no_dropout):
    """Logits (B, T, V) of input tokens (B, T), and what `backward` needs; factors(layer, site, shape)."""
    x = parameters["embedding/token"][inputs] + parameters["embedding/position"][: inputs.shape[1]]
    keep = factors(0, 0, x.shape)
    x, saved = x * keep, []
    for i in range(block_count(parameters)):
        p = layer_parameters(parameters, f"block.{i}")
        x, s = block_forward(p, x, heads, lambda site, shape: factors(i + 1, site, shape))
        saved.append(s)
    x, sn = norm(x, parameters["final_norm/weight"], parameters["final_norm/bias"])
    return x @ head_weight(parameters).T, (inputs, keep, saved, sn, x)


def logits(parameters, inputs, heads):
    return forward(parameters, inputs, heads)[0]


def backward(parameters, dlogits, heads, saved):
    """Gradients by name. A tied network has `head/weight` among them, apart from `embedding/token`."""
    inputs, keep, saved, sn, x = saved
    g = {}
    dx, g["head/weight"], _ = linear_backward(dlogits, x, head_weight(parameters))
    dx, g["final_norm/weight"], g["final_norm/bias"] = norm_backward(dx, parameters["final_norm/weight"], sn)
    for i in reversed(range(block_count(parameters))):
        dx, block = block_backward(layer_parameters(parameters, f"block.{i}"), dx, heads, saved[i])
        g |= {f"block.{i}/{name}": value for name, value in block.items()}
    dx = dx * keep
    g["embedding/token"] = np.zeros_like(parameters["embedding/token"])
    np.add.at(g["embedding/token"], inputs, dx)
    g["embedding/position"] = np.zeros_like(parameters["embedding/position"])
    g["embedding/position"][: inputs.shape[1]] = dx.sum(0)
    return g


def loss(logits, targets):
    """Sum of -log softmax(logits)[target], and its gradient with respect to the logits."""
    shifted = logits - logits.max(-1, keepdims=True)
    sums = np.exp(shifted).sum(-1, keepdims=True)
    at = targets[..., None]
    losses = np.log(sums) - np.take_along_axis(shifted, at, -1)
    d = np.exp(shifted) / sums
    np.put_along_axis(d, at, np.take_along_axis(d, at, -1) - 1, -1)
    return sum_in_order(losses), d


# A step and a run --------------------------------------------------------------------------------


def sum_in_order(x):
    return np.cumsum(x)[-1]  # np.sum adds pairwise


@functools.lru_cache(256)
def sample_numbers(run, step, microbatch, samples):
    first = (step * run.microbatches + microbatch) * run.rows
    return np.array([permute([g % samples], samples, g // samples, run.seed)[0] for g in range(first, first + run.rows)])


def tree_sum(lanes, first, last):
    if last - first == 1:
        return lanes[first]
    s = 1 << ((last - first - 1).bit_length() - 1)  # the largest power of two smaller than the count
    a, b = tree_sum(lanes, first, first + s), tree_sum(lanes, first + s, last)
    return {name: a[name] + b[name] for name in a}


def step_gradient(run, parameters, corpus, step):
    """Loss of a step and its gradients by name, those of a tied tensor's two uses apart."""
    t, samples = run.context, (len(corpus) - 1) // run.context
    total, lanes = 0.0, []
    for lane in range(run.lanes):
        gradient = None
        for m in range(lane * run.microbatches // run.lanes, (lane + 1) * run.microbatches // run.lanes):
            tokens = np.stack([corpus[i * t : i * t + t + 1] for i in sample_numbers(run, step, m, samples)])

            def factors(layer, site, shape):
                return dropout_factors(shape, run.dropout, m, step, layer, site, run.seed)

            out, saved = forward(parameters, tokens[:, :-1], run.heads, factors if run.dropout else no_dropout)
            part, dlogits = loss(out, tokens[:, 1:])
            total += part
            g = backward(parameters, dlogits / run.targets, run.heads, saved)
            gradient = g if gradient is None else {name: gradient[name] + g[name] for name in g}
        lanes.append(gradient)
    return total / run.targets, tree_sum(lanes, 0, run.lanes)


def join_tied(run, gradient):
    """Gradients of the owned parameters, in their order."""
    joined = {name: gradient[name] for name in parameter_shapes(run)}
    if run.tied:
        joined["embedding/token"] = gradient["embedding/token"] + gradient["head/weight"]
    return joined


def gradient_norm(run, gradient):
    total = 0.0
    for g in gradient.values():
        for first in range(0, g.size, run.chunk_elements):
            total += sum_in_order(g.reshape(-1)[first : first + run.chunk_elements] ** 2)
    return math.sqrt(total)


def rate(run, k):
    w, e = run.warmup_steps, run.decay_steps
    if k < w:
        return run.learning_rate * (k + 1) / w
    if k < e:
        return run.final_rate + (run.learning_rate - run.final_rate) * (1 + math.cos(math.pi * (k - w) / (e - w))) / 2
    return run.final_rate


def train(run, parameters, corpus, steps):
    """Yields after each step: loss, norm, rate, the gradients (uses apart), and the parameters."""
    parameters = {name: value.copy() for name, value in parameters.items()}
    m = {name: np.zeros_like(value) for name, value in parameters.items()}
    v = {name: np.zeros_like(value) for name, value in parameters.items()}
    for k in range(steps):
        step_loss, uses = step_gradient(run, parameters, corpus, k)
        gradient = join_tied(run, uses)
        size, r = gradient_norm(run, gradient), rate(run, k)
        s = min(1, run.clip_norm / (size + 1e-6)) if run.clip_norm > 0 else 1
        for name, p in parameters.items():
            g = s * gradient[name]
            m[name] = run.beta1 * m[name] + (1 - run.beta1) * g
            v[name] = run.beta2 * v[name] + (1 - run.beta2) * g * g
            p = p - r * (run.weight_decay if p.ndim >= 2 else 0) * p
            corrected = np.sqrt(v[name] / (1 - run.beta2 ** (k + 1))) + run.epsilon
            parameters[name] = p - r * (m[name] / (1 - run.beta1 ** (k + 1))) / corrected
        yield step_loss, size, r, uses, parameters


# The golden file ---------------------------------------------------------------------------------

STEPS = 10
CASES = {
    "tied": Run(microbatches=4, lanes=2, dropout=0.0, tied=True),
    "untied_dropout": Run(microbatches=6, lanes=3, dropout=0.2, tied=False),
}


def formula_parameters(run):
    """Values that depend on no transcendental function, so that two implementations start from the same bits."""
    parameters = {}
    for j, (name, shape) in enumerate(parameter_shapes(run).items()):
        i = np.arange(math.prod(shape), dtype=np.uint64)
        value = (((i * U64(2654435761) + U64((j + 1) * 40503 * 65537)) & LOW) / 2.0**32 - 0.5) * 0.8
        parameters[name] = (value + 1.0 if is_norm_weight(name) else value).reshape(shape)
    return parameters


def formula_corpus():
    i = np.arange(37 * 5 + 1)
    return (i * i * 7 + 3 * i + i // 11) % 11


def golden():
    """Comment lines and records of the golden file: a list of (comment or name, None or values)."""
    out = [
        ("The functions of docs/MATHEMATICS.md evaluated by gpt_numpy.py, which also checks this file (--check).", None),
        ("sampler/N/passQ: P_Q of 0 .. N - 1; seed 7 for N = 37, 2^40 + 3 for N = 5.", None),
        ("sampler/37/pass0", permute(np.arange(37), 37, 0, 7)),
        ("sampler/37/pass1", permute(np.arange(37), 37, 1, 7)),
        ("sampler/5/pass3", permute(np.arange(5), 5, 3, 2**40 + 3)),
        ("initial/LAYER/TENSOR: initial values of the cases' network, seed 1234.", None),
    ]
    initial = initial_parameters(CASES["tied"])
    out += [(f"initial/{name}", initial[name]) for name in ("embedding/token", "block.1/projection.weight")]
    out += [
        ("CASE/loss, norm (before clipping), rate: by step. CASE/gradient: of step 0, not clipped.", None),
        (f"CASE/parameter: after {STEPS} steps.", None),
    ]
    for case, run in CASES.items():
        steps = list(train(run, formula_parameters(run), formula_corpus(), STEPS))
        losses, norms, rates, uses, parameters = zip(*steps)
        clipped = [k for k, size in enumerate(norms) if run.clip_norm < size + 1e-6]
        keys = f"microbatches {run.microbatches}, lanes {run.lanes}, dropout {run.dropout:g}"
        out.append((f"{case}: {keys}, {'tied' if run.tied else 'untied'}; the gradient is clipped in steps {clipped}.", None))
        out += [(f"{case}/loss", losses), (f"{case}/norm", norms), (f"{case}/rate", rates)]
        if run.tied:
            out.append((f"{case}/head_gradient", uses[0]["head/weight"]))
            out.append((f"{case}/token_gradient", uses[0]["embedding/token"]))
        out += [(f"{case}/gradient/{name}", value) for name, value in join_tied(run, uses[0]).items()]
        out += [(f"{case}/parameter/{name}", value) for name, value in parameters[-1].items()]
    return [(name, None if values is None else np.ravel(values)) for name, values in out]


def write(path):
    with open(path, "w", encoding="ascii", newline="\n") as file:
        for name, values in golden():
            if values is None:
                file.write(f"# {name}\n")
                continue
            file.write(f"{name} {len(values)}\n")
            texts = [str(x) if values.dtype.kind == "i" else f"{x:.17g}" for x in values]
            for first in range(0, len(texts), 8):
                file.write(" ".join(texts[first : first + 8]) + "\n")


def read(path):
    """The records of a golden file, by name."""
    with open(path, encoding="ascii") as file:
        tokens = [token for line in file if not line.startswith("#") for token in line.split()]
    records, at = {}, 0
    while at < len(tokens):
        name, count = tokens[at], int(tokens[at + 1])
        if name in records:
            raise ValueError(f"record {name} twice")
        records[name] = np.array([float(token) for token in tokens[at + 2 : at + 2 + count]])
        if len(records[name]) != count:
            raise ValueError(f"record {name} ends early")
        at += 2 + count
    return records


def check(path):
    """What is wrong with the file, one line each."""
    try:
        found = read(path)
    except (OSError, ValueError, IndexError) as error:
        return [f"cannot be read: {error}"]
    expected = {name: values for name, values in golden() if values is not None}
    faults = [f"record {name} is missing" for name in expected if name not in found]
    faults += [f"record {name} is unknown" for name in found if name not in expected]
    for name in expected.keys() & found.keys():
        a, b = expected[name], found[name]
        if len(a) != len(b):
            faults.append(f"{name}: {len(b)} numbers instead of {len(a)}")
            continue
        bad = ~(np.abs(a - b) <= tolerance(name, a))
        if bad.any():
            i = int(np.argmax(bad))
            faults.append(f"{name}: {bad.sum()} of {len(a)} numbers differ, the first at {i}: {b[i]:.17g}, not {a[i]:.17g}")
    return sorted(faults)


def tolerance(name, values):
    """Allowed difference per number: 1e-12 of the record's largest, which its rounding errors scale with."""
    allowed = np.full(len(values), 1e-12 * np.abs(values).max())
    if name.endswith("/attention.bias") and "/parameter/" in name:
        # A bias of the keys adds the same to every score of a row, so its gradient is 0 but for rounding
        # errors. AdamW divides these by little more than epsilon: 1e-17 becomes a change of 1e-11 per step.
        third = len(values) // 3
        allowed[third : 2 * third] = 1e-9
    return allowed


# Self-test ---------------------------------------------------------------------------------------


def self_test():
    faults = []
    for counter, seed, answer in (  # the known answers published with Random123
        ((0, 0, 0, 0), 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), 0x299F31D0A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ):
        got = " ".join(f"{word:08x}" for word in philox(counter, seed))
        if got != answer:
            faults.append(f"Philox of {counter}: {got}, not {answer}")
    for samples in (1, 2, 3, 4, 5, 16, 17, 37, 1000):
        if sorted(permute(np.arange(samples), samples, 2, 2**40 + 3)) != list(range(samples)):
            faults.append(f"the sampler does not permute {samples} samples")

    worst, h = 0.0, 1e-3
    for case, run in CASES.items():
        corpus, parameters = formula_corpus(), formula_parameters(run)
        gradient = join_tied(run, step_gradient(run, parameters, corpus, 0)[1])
        for name, value in parameters.items():
            for i in np.unique(np.linspace(0, value.size - 1, 5).astype(int)):
                at = np.unravel_index(i, value.shape)

                def moved(offset):
                    changed = value.copy()
                    changed[at] += offset
                    return step_gradient(run, parameters | {name: changed}, corpus, 0)[0]

                # The central difference of fourth order: its error and the rounding of the loss stay below 1e-11.
                slope = (8 * (moved(h) - moved(-h)) - moved(2 * h) + moved(-2 * h)) / (12 * h)
                error = abs(slope - gradient[name][at]) / (abs(gradient[name][at]) + 1e-5)
                worst = max(worst, error)
                if not error <= 1e-6:
                    faults.append(f"{case}/{name}[{i}]: gradient {gradient[name][at]:.9g}, difference quotient {slope:.9g}")
    print(f"largest relative error of a gradient: {worst:.2g}")
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("out", nargs="?", metavar="OUT", help="write the golden file")
    what.add_argument("--check", metavar="FILE", help="recompute everything and compare with FILE")
    what.add_argument("--self-test", action="store_true", help="known answers and finite differences")
    arguments = parser.parse_args()
    if arguments.out:
        write(arguments.out)
        return 0
    faults = self_test() if arguments.self_test else check(arguments.check)
    for fault in faults:
        print(f"{arguments.check or 'self-test'}: {fault}", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
