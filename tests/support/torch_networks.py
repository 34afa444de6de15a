# SPDX-License-Identifier: Apache-2.0
"""Exports 18 small networks with torch, each with its inputs and outputs.

    python -m tests.support.torch_networks FOLDER [NAME ...]

The folder is a corpus for `tools.corpus runtimes --corpus FOLDER`. The networks have random
weights, and dynamo exports them at the opset of the installed torch. torch and onnxscript have to
be installed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn, rand, randint, randn
from torch.nn import functional as F  # noqa: N812 - as every user of torch names it

Network = Callable[[], nn.Module]


class Residual(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return F.relu(x + self.inner(x))


def resnet() -> nn.Module:
    def block() -> nn.Module:
        first, second = nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        return Residual(nn.Sequential(first, nn.BatchNorm2d(32), nn.ReLU(), second))

    stem = nn.Sequential(nn.Conv2d(3, 32, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))
    return nn.Sequential(stem, block(), block(), block(), head)


class Mobile(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        parts = [nn.Conv2d(3, 16, 3, 2, 1), nn.Hardswish()]
        for _ in range(3):
            parts += [nn.Conv2d(16, 64, 1), nn.BatchNorm2d(64), nn.Hardswish()]
            parts += [nn.Conv2d(64, 64, 3, 1, 1, groups=64), nn.Hardswish(), nn.Conv2d(64, 16, 1)]
        self.body, self.gate = nn.Sequential(*parts), nn.Linear(16, 16)

    def forward(self, x):
        y = self.body(x)
        return y * torch.sigmoid(self.gate(y.mean((2, 3))))[:, :, None, None]


class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.up, self.norm = nn.ConvTranspose2d(32, 16, 2, 2), nn.GroupNorm(4, 32)
        self.third, self.last = nn.Conv2d(32, 16, 3, padding=1), nn.Conv2d(16, 2, 1)

    def forward(self, x):
        a = F.relu(self.first(x))
        b = F.silu(self.norm(self.second(F.max_pool2d(a, 2))))
        y = self.last(F.relu(self.third(torch.cat([a, self.up(b)], 1))))
        return F.interpolate(y, scale_factor=2.0, mode="bilinear", align_corners=False)


def encoder(**options: object) -> nn.Module:
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, **options)
    return nn.TransformerEncoder(layer, 2)


class Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(100, 64), nn.Embedding(32, 64)
        self.body, self.head = encoder(activation="gelu"), nn.Linear(64, 5)

    def forward(self, words):
        y = self.body(self.words(words) + self.places.weight[None])
        return self.head(torch.tanh(y[:, 0]))


class RootMeanSquare(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight


class Llama(nn.Module):
    """A decoder with rotary positions."""

    def __init__(self, size: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads, each = heads, size // heads
        self.words = nn.Embedding(100, size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.before, self.between = RootMeanSquare(size), nn.RMSNorm(size)
        self.gate, self.up = nn.Linear(size, 2 * size), nn.Linear(size, 2 * size)
        self.down = nn.Linear(2 * size, size)
        turns = torch.arange(32)[:, None] / 10000 ** (torch.arange(0, each, 2) / each)
        self.register_buffer("cosines", turns.cos())
        self.register_buffer("sines", turns.sin())

    def turned(self, x):
        a, b = x[..., ::2], x[..., 1::2]
        pair = a * self.cosines - b * self.sines, a * self.sines + b * self.cosines
        return torch.stack(pair, -1).flatten(-2)

    def forward(self, words):
        x = self.words(words)
        batch, length, size = x.shape
        for _ in range(2):
            qkv = self.qkv(self.before(x)).view(batch, length, 3, self.heads, size // self.heads)
            q, k, v = qkv.permute(2, 0, 3, 1, 4)
            y = F.scaled_dot_product_attention(self.turned(q), self.turned(k), v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(batch, length, size))
            y = self.between(x)
            x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return x @ self.words.weight.t()


class Recurrent(nn.Module):
    def __init__(self, layer: type) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(100, 32), nn.Linear(128, 5)
        self.layer = layer(32, 64, batch_first=True, bidirectional=True)

    def forward(self, words):
        return self.head(self.layer(self.words(words))[0].mean(1))


class GraphConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 4)

    def forward(self, x, edges):
        for layer in (self.first, self.second):
            y = layer(x)
            to = edges[1].unsqueeze(-1).expand(-1, y.shape[1])
            x = F.relu(torch.zeros_like(y).scatter_add(0, to, y[edges[0]]))
        return self.head(x)


class GraphAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(32, 32), nn.Linear(32, 4)
        self.left, self.right = nn.Linear(32, 1), nn.Linear(32, 1)

    def forward(self, x, edges):
        x, (source, to) = self.body(x), edges
        w = F.leaky_relu(self.left(x)[source] + self.right(x)[to], 0.2).squeeze(-1)
        most = torch.full((x.shape[0],), -1e9).scatter_reduce(0, to, w, "amax")
        w = torch.exp(w - most[to])
        w = w / (torch.zeros(x.shape[0]).index_add(0, to, w)[to] + 1e-9)
        return self.head(torch.zeros_like(x).index_add(0, to, x[source] * w[:, None]))


class Vit(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.body = nn.Conv2d(3, 64, 8, 8), encoder(norm_first=True)
        self.first = nn.Parameter(torch.zeros(1, 1, 64))
        self.places, self.head = nn.Parameter(randn(1, 65, 64)), nn.Linear(64, 10)

    def forward(self, x):
        y = self.patches(x).flatten(2).transpose(1, 2)
        y = torch.cat([self.first.expand(y.shape[0], -1, -1), y], 1) + self.places
        return self.head(self.body(y)[:, 0])


class Warp(nn.Module):
    """A spatial transformer."""

    def __init__(self) -> None:
        super().__init__()
        pooled = nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
        self.where = nn.Sequential(nn.Conv2d(3, 8, 5, 2), *pooled, nn.Linear(8, 6))
        self.last = nn.Conv2d(3, 8, 3)

    def forward(self, x):
        grid = F.affine_grid(self.where(x).view(-1, 2, 3), x.shape, align_corners=False)
        return self.last(F.grid_sample(x, grid, align_corners=False))


class Mixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))
        self.columns = nn.Sequential(nn.Linear(48, 96), nn.GELU("tanh"), nn.Linear(96, 48))
        self.norm = nn.LayerNorm(48)

    def forward(self, x):
        for _ in range(3):
            x = x + self.rows(self.norm(x).transpose(1, 2)).transpose(1, 2)
            x = x + self.columns(self.norm(x))
        return x.amax(1)


class Vae(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(784, 64), nn.Linear(8, 784)
        self.mean, self.spread = nn.Linear(64, 8), nn.Linear(64, 8)

    def forward(self, x, noise):
        y = F.elu(self.encode(x))
        m, v = self.mean(y), self.spread(y).clamp(-5, 5)
        divergence = (m.square() + v.exp() - v - 1).sum(-1)
        return torch.sigmoid(self.decode(F.mish(m + noise * torch.exp(v / 2)))), divergence


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        first, last = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(16, 24, 3, 2, 1)
        self.body = nn.Sequential(first, nn.LeakyReLU(0.1), last)

    def forward(self, x):
        y = self.body(x)
        batch, _, height, width = y.shape
        y = y.view(batch, 3, 8, height, width).permute(0, 1, 3, 4, 2).reshape(batch, -1, 8)
        score, kind = y[..., 5:].softmax(-1).max(-1)
        best, at = torch.topk(y[..., 4].sigmoid() * score, 50)
        boxes = torch.gather(y[..., :4], 1, at.unsqueeze(-1).expand(-1, -1, 4))
        return boxes, best, torch.gather(kind, 1, at)


class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 12, 3, padding=1)
        self.norm = nn.InstanceNorm2d(32, affine=True)

    def forward(self, x):
        x = F.pad(x, (1, 1, 1, 1), mode="reflect")
        y = F.prelu(self.norm(self.first(x)), torch.full((1,), 0.2))
        return F.pixel_shuffle(self.last(y), 2) + F.interpolate(x, scale_factor=2, mode="bicubic")


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, q, k):
        return self.body(q, k, k, need_weights=True)


class Temporal(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.ModuleList(nn.Conv1d(16, 32, 3, dilation=2**i) for i in range(3))
        self.narrow = nn.ModuleList(nn.Conv1d(16, 16, 1) for _ in range(3))

    def forward(self, x):
        for i, (wide, narrow) in enumerate(zip(self.wide, self.narrow, strict=True)):
            x = x + narrow(F.glu(wide(F.pad(x, (2 ** (i + 1), 0))), 1))
        return x.cumsum(-1)


class Norms(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.layer = nn.LayerNorm(64), nn.Linear(64, 64)

    def forward(self, x):
        y = F.normalize(self.layer(self.norm(x)), dim=-1)
        a = torch.einsum("bid,bjd->bij", y, y)
        a = a.masked_fill(torch.ones(32, 32).triu(1).bool(), float("-inf"))
        return torch.log_softmax(a, -1) @ x, torch.logsumexp(a, -1), x.std(-1), x.var(1)


def words(length: int):
    return randint(0, 100, (1, length))


# The network and its inputs, by name.
NETWORKS: dict[str, tuple[Network, Callable[[], tuple[torch.Tensor, ...]]]] = {
    "bert": (Bert, lambda: (words(32),)),
    "det": (Detector, lambda: (randn(1, 3, 64, 64),)),
    "gat": (GraphAttention, lambda: (randn(100, 32), randint(0, 100, (2, 400)))),
    "gcn": (GraphConvolution, lambda: (randn(100, 64), randint(0, 100, (2, 400)))),
    "gru": (lambda: Recurrent(nn.GRU), lambda: (words(24),)),
    "llama": (Llama, lambda: (words(32),)),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda: (words(24),)),
    "mha": (Attention, lambda: (randn(1, 24, 64), randn(1, 40, 64))),
    "mixer": (Mixer, lambda: (randn(1, 32, 48),)),
    "mobile": (Mobile, lambda: (randn(1, 3, 64, 64),)),
    "norms": (Norms, lambda: (randn(2, 32, 64),)),
    "resnet": (resnet, lambda: (randn(1, 3, 64, 64),)),
    "sr": (SuperResolution, lambda: (randn(1, 3, 32, 32),)),
    "tcn": (Temporal, lambda: (randn(1, 16, 64),)),
    "unet": (UNet, lambda: (randn(1, 3, 32, 32),)),
    "vae": (Vae, lambda: (rand(8, 784), randn(8, 8))),
    "vit": (Vit, lambda: (randn(1, 3, 64, 64),)),
    "warp": (Warp, lambda: (randn(1, 3, 32, 32),)),
}


def main() -> int:
    """Writes the networks."""
    folder, *names = sys.argv[1:]
    for name in names or NETWORKS:
        write(Path(folder, name), name)
        print(f"wrote {Path(folder, name)}", flush=True)
    return 0


def write(folder: Path, name: str) -> None:
    """Exports a network, and writes its inputs and outputs under the names of the model."""
    torch.manual_seed(0)
    network, inputs = NETWORKS[name]
    built, values = network().eval(), inputs()
    program = torch.onnx.export(built, values, dynamo=True, verbose=False)
    with torch.no_grad():
        results = built(*values)
    outputs = results if isinstance(results, tuple) else (results,)
    folder.mkdir(parents=True, exist_ok=True)
    program.save(folder / "model.onnx")
    graph = program.model.graph
    for file, named, of in (
        ("inputs.npz", graph.inputs, values),
        ("expected.npz", graph.outputs, outputs),
    ):
        pairs = zip(named, of, strict=True)
        np.savez(folder / file, **{info.name: value.numpy() for info, value in pairs})


if __name__ == "__main__":
    sys.exit(main())
