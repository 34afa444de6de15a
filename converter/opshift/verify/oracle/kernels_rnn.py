# SPDX-License-Identifier: Apache-2.0
"""Implements RNN, GRU and LSTM from their equations, for every version, layout and direction."""

from collections.abc import Callable

import numpy as np

from opshift.verify.oracle.kernel_registry import kernel
from opshift.verify.oracle.strict_schema import Call
from opshift.verify.oracle.values import OracleError, wide

Activation = Callable[[np.ndarray], np.ndarray]
_DEFAULTS = {"HardSigmoid": (0.2, 0.5), "LeakyRelu": (0.01, 0.0), "Elu": (1.0, 0.0)}
_PER_DIRECTION = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}
_GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def _activation(name: str, alpha: float | None, beta: float | None) -> Activation:
    first, second = _DEFAULTS.get(name, (1.0, 0.0))
    a = np.float32(first if alpha is None else alpha)
    b = np.float32(second if beta is None else beta)
    functions: dict[str, Activation] = {
        "relu": lambda x: np.maximum(x, 0),
        "tanh": np.tanh,
        "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
        "affine": lambda x: a * x + b,
        "leakyrelu": lambda x: np.where(x < 0, a * x, x),
        "thresholdedrelu": lambda x: np.where(x > a, x, 0).astype(x.dtype),
        "scaledtanh": lambda x: a * np.tanh(b * x),
        "hardsigmoid": lambda x: np.clip(a * x + b, 0, 1),
        "elu": lambda x: np.where(x < 0, a * (np.exp(x) - 1), x),
        "softsign": lambda x: x / (1 + np.abs(x)),
        "softplus": lambda x: np.log1p(np.exp(x)),
    }
    if name.lower() not in functions:
        raise OracleError(f"activation {name!r} does not exist")
    return functions[name.lower()]


def _activations(call: Call, directions: int) -> list[list[Activation]]:
    needed = len(_PER_DIRECTION[call.op]) * directions
    names = (call["activations"] or _PER_DIRECTION[call.op] * directions)[:needed]
    if len(names) != needed:
        raise OracleError(f"{call.op}: {len(names)} activations")
    alphas = list(call["activation_alpha"] or [])
    betas = list(call["activation_beta"] or [])
    functions = []
    for name in names:
        takes_alpha = name.lower() not in ("relu", "tanh", "sigmoid", "softsign", "softplus")
        takes_beta = name.lower() in ("affine", "scaledtanh", "hardsigmoid")
        alpha = alphas.pop(0) if alphas and takes_alpha else None
        beta = betas.pop(0) if betas and takes_beta else None
        functions.append(_activation(name, alpha, beta))
    each = len(functions) // directions
    return [functions[place * each : (place + 1) * each] for place in range(directions)]


@kernel("RNN GRU LSTM")
def recurrent(
    call: Call,
    x: np.ndarray,
    w: np.ndarray,
    r: np.ndarray,
    b: np.ndarray | None = None,
    lengths: np.ndarray | None = None,
    initial_h: np.ndarray | None = None,
    initial_c: np.ndarray | None = None,
    peepholes: np.ndarray | None = None,
) -> tuple[np.ndarray | None, ...]:
    """onnx.reference ignores sequence lengths and clip in RNN, GRU and LSTM."""
    dtype = x.dtype
    direction = call["direction"].lower().replace("foward", "forward")
    flows = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[direction]
    if call["layout"]:
        x = x.swapaxes(0, 1)
        initial_h = None if initial_h is None else initial_h.swapaxes(0, 1)
        initial_c = None if initial_c is None else initial_c.swapaxes(0, 1)
    steps, batch, _ = x.shape
    hidden = r.shape[2]
    count = _GATES[call.op] * hidden
    if w.shape[:2] != (len(flows), count) or r.shape != (len(flows), count, hidden):
        raise OracleError(f"{call.op}: weights {w.shape} and {r.shape}")
    if call["hidden_size"] not in (None, hidden):
        raise OracleError(f"{call.op}: hidden_size {call['hidden_size']}, weights {r.shape}")
    blank = np.zeros((len(flows), batch, hidden), dtype=wide(x).dtype)
    b = np.zeros((len(flows), 2 * count), dtype=blank.dtype) if b is None else wide(b)
    peepholes = np.zeros((len(flows), 3 * hidden)) if peepholes is None else wide(peepholes)
    lengths = np.full(batch, steps) if lengths is None else lengths
    h0 = blank if initial_h is None else wide(initial_h)
    c0 = blank if initial_c is None else wide(initial_c)
    functions = _activations(call, len(flows))
    ys = np.zeros((steps, len(flows), batch, hidden), dtype=blank.dtype)
    last_h, last_c = blank.copy(), blank.copy()
    step = {"RNN": _rnn_step, "GRU": _gru_step, "LSTM": _lstm_step}[call.op]
    for place, backwards in enumerate(flows):
        weights = (wide(w)[place], wide(r)[place], b[place], peepholes[place].astype(blank.dtype))
        for item in range(batch):
            h, c = h0[place, item : item + 1], c0[place, item : item + 1]
            length = int(lengths[item])
            for time in reversed(range(length)) if backwards else range(length):
                row = wide(x)[time, item : item + 1]
                h, c = step(call, row, h, c, weights, functions[place])
                ys[time, place, item] = h[0]
            last_h[place, item], last_c[place, item] = h[0], c[0]
    return _outputs(call, ys, last_h, last_c, dtype)


def _outputs(
    call: Call, ys: np.ndarray, h: np.ndarray, c: np.ndarray, dtype: np.dtype
) -> tuple[np.ndarray | None, ...]:
    if call["layout"]:
        ys, h, c = ys.transpose(2, 0, 1, 3), h.swapaxes(0, 1), c.swapaxes(0, 1)
    if (
        "output_sequence" in call.schema.attributes
        and call.wants(0)
        and not call["output_sequence"]
    ):
        raise OracleError(f"{call.op}-{call.since}: Y needs output_sequence")
    results = (ys, h, c) if call.op == "LSTM" else (ys, h)
    return tuple(result.astype(dtype) for result in results)


Weights = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
State = tuple[np.ndarray, np.ndarray]


def _clipped(call: Call, x: np.ndarray) -> np.ndarray:
    return x if call["clip"] is None else np.clip(x, -call["clip"], call["clip"])


def _rnn_step(
    call: Call, x: np.ndarray, h: np.ndarray, c: np.ndarray, weights: Weights, f: list[Activation]
) -> State:
    w, r, b, _ = weights
    half = len(b) // 2
    return f[0](_clipped(call, x @ w.T + h @ r.T + b[:half] + b[half:])), c


def _gru_step(
    call: Call, x: np.ndarray, h: np.ndarray, c: np.ndarray, weights: Weights, f: list[Activation]
) -> State:
    w, r, b, _ = weights
    n, half = h.shape[1], len(b) // 2
    wb, rb = b[:half], b[half:]
    gates = _clipped(call, x @ w[: 2 * n].T + h @ r[: 2 * n].T + wb[: 2 * n] + rb[: 2 * n])
    update, reset = f[0](gates[:, :n]), f[0](gates[:, n:])
    candidate_input = x @ w[2 * n :].T + wb[2 * n :]
    if call["linear_before_reset"]:
        fresh = candidate_input + reset * (h @ r[2 * n :].T + rb[2 * n :])
    else:
        fresh = candidate_input + (reset * h) @ r[2 * n :].T + rb[2 * n :]
    return (1 - update) * f[1](_clipped(call, fresh)) + update * h, c


def _lstm_step(
    call: Call, x: np.ndarray, h: np.ndarray, c: np.ndarray, weights: Weights, f: list[Activation]
) -> State:
    w, r, b, p = weights
    n, half = h.shape[1], len(b) // 2
    gates = x @ w.T + h @ r.T + b[:half] + b[half:]
    i, o, forget, cell = (gates[:, k * n : (k + 1) * n] for k in range(4))
    into = f[0](_clipped(call, i + p[:n] * c))
    free = f[0](_clipped(call, forget + p[2 * n :] * c))
    keep = 1 - into if call["input_forget"] else free
    c = keep * c + into * f[1](_clipped(call, cell))
    out = f[0](_clipped(call, o + p[n : 2 * n] * c))
    return out * f[2](c), c
