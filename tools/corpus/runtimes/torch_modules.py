# SPDX-License-Identifier: Apache-2.0
"""Small networks of typical architectures, which an interpreter with torch exports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import nn
from torch.nn import functional

# A module, its inputs, and the dynamic sizes of the inputs, if there are any.
Made: TypeAlias = "tuple[nn.Module, tuple[Any, ...], Any]"
MODULES: dict[str, Callable[[], Made]] = {}


def network(make: Callable[[], Any]) -> Callable[[], Any]:
    """Lists a function that makes a module and its inputs, under the name of the function."""
    MODULES[make.__name__] = make
    return make


class FunctionModule(nn.Module):
    """A function as a module, with the modules that it uses."""

    def __init__(self, forward: Callable[..., Any], **parts: nn.Module) -> None:
        super().__init__()
        self.function = forward
        for name, part in parts.items():
            self.add_module(name, part)

    def forward(self, *inputs: Any) -> Any:
        return self.function(self, *inputs)


@network
def mlp() -> Any:
    layers = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.SiLU())
    return nn.Sequential(layers, nn.Linear(16, 4), nn.Softmax(-1)), (torch.randn(3, 8),)


@network
def mlp_dynamic_batch() -> Any:
    module = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return module, (torch.randn(3, 8),), ({0: torch.export.Dim("batch")},)


@network
def cnn() -> Any:
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(8, 8, 3), nn.ELU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(8, 5)), (torch.randn(1, 3, 16, 16),)


@network
def residual() -> Any:
    def forward(self: Any, x: Any) -> Any:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + x)

    parts = {f"conv{i}": nn.Conv2d(6, 6, 3, padding=1, bias=False) for i in (1, 2)}
    return FunctionModule(forward, **parts, norm1=nn.BatchNorm2d(6), norm2=nn.BatchNorm2d(6)), (
        torch.randn(1, 6, 8, 8),
    )


@network
def mobile() -> Any:
    def forward(self: Any, x: Any) -> Any:
        y = self.depthwise(x)
        return x + self.point(functional.hardswish(y) * self.squeeze(y))

    squeeze = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Hardsigmoid())
    module = FunctionModule(
        forward, squeeze=squeeze, point=nn.Conv2d(8, 8, 1),
        depthwise=nn.Conv2d(8, 8, 3, padding=1, groups=8),
    )  # fmt: skip
    return module, (torch.randn(1, 8, 10, 10),)


@network
def unet() -> Any:
    def forward(self: Any, x: Any) -> Any:
        down = functional.relu(self.down(x))
        up = self.up(functional.relu(self.deep(functional.max_pool2d(down, 2))))
        return self.out(torch.cat([down, up], 1))

    module = FunctionModule(
        forward, down=nn.Conv2d(3, 4, 3, padding=1), deep=nn.Conv2d(4, 8, 3, padding=1),
        up=nn.ConvTranspose2d(8, 4, 2, stride=2), out=nn.Conv2d(8, 2, 1),
    )  # fmt: skip
    return module, (torch.randn(1, 3, 16, 16),)


@network
def lstm() -> Any:
    cell = nn.LSTM(4, 6, num_layers=2, batch_first=True, bidirectional=True)
    return FunctionModule(lambda self, x: self.cell(x)[0], cell=cell), (torch.randn(2, 5, 4),)


@network
def gru() -> Any:
    cell = nn.GRU(4, 6, batch_first=True)
    return FunctionModule(lambda self, x: self.cell(x), cell=cell), (torch.randn(2, 5, 4),)


@network
def attention() -> Any:
    def forward(_: Any, q: Any, k: Any, v: Any) -> Any:
        return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    return FunctionModule(forward), tuple(torch.randn(1, 2, 5, 8) for _ in range(3))


@network
def encoder() -> Any:
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, activation="gelu")
    module = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    return module, (torch.randn(2, 5, 16),)


@network
def language() -> Any:
    def forward(self: Any, tokens: Any) -> Any:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        q, k, v = self.split(self.first(x)).chunk(3, -1)
        scores = (q @ k.transpose(-1, -2)) / 4.0
        masked = torch.triu(torch.full(scores.shape[-2:], float("-inf")), 1)
        x = x + torch.softmax(scores + masked, -1) @ v
        x = x + self.wide(self.second(x))
        return self.head(x)

    wide = nn.Sequential(nn.Linear(16, 32), nn.GELU(approximate="tanh"), nn.Linear(32, 16))
    module = FunctionModule(
        forward, words=nn.Embedding(20, 16), places=nn.Embedding(8, 16), split=nn.Linear(16, 48),
        first=nn.LayerNorm(16), second=nn.LayerNorm(16), wide=wide,
        head=nn.Linear(16, 20, bias=False),
    )  # fmt: skip
    return module, (torch.randint(0, 20, (2, 6)),)


@network
def rotary() -> Any:
    def forward(self: Any, x: Any) -> Any:
        x = self.norm(x)
        angles = torch.outer(torch.arange(6.0), 10000.0 ** (-torch.arange(0, 8, 2) / 8.0))
        left, right = x.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)

    return FunctionModule(forward, norm=nn.RMSNorm(8)), (torch.randn(2, 6, 8),)


@network
def vision() -> Any:
    def forward(self: Any, x: Any) -> Any:
        patches = self.cut(x).flatten(2).transpose(1, 2)
        first = self.first.weight.unsqueeze(0).expand(x.shape[0], -1, -1)
        return self.head(self.layer(torch.cat([first, patches], 1))[:, 0])

    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True, norm_first=True)
    module = FunctionModule(
        forward, cut=nn.Conv2d(3, 16, 4, stride=4), first=nn.Embedding(1, 16), layer=layer,
        head=nn.Linear(16, 3),
    )  # fmt: skip
    return module, (torch.randn(1, 3, 16, 16),)


@network
def windows() -> Any:
    def forward(_: Any, x: Any) -> Any:
        x = torch.roll(x, (-2, -2), (1, 2))
        parts = x.view(1, 2, 4, 2, 4, 6).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 6)
        return torch.softmax(parts @ parts.transpose(1, 2), -1) @ parts

    return FunctionModule(forward), (torch.randn(1, 8, 8, 6),)


@network
def groups() -> Any:
    layers = [nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.Mish(), nn.InstanceNorm2d(8)]
    return nn.Sequential(*layers, nn.PixelShuffle(2)), (torch.randn(1, 4, 6, 6),)


@network
def bilinear() -> Any:
    def forward(_: Any, x: Any) -> Any:
        return functional.interpolate(x, scale_factor=2, mode="bilinear")

    return FunctionModule(forward), (torch.randn(1, 2, 5, 5),)


@network
def bicubic() -> Any:
    def forward(_: Any, x: Any) -> Any:
        return functional.interpolate(x, size=(9, 7), mode="bicubic", align_corners=True)

    return FunctionModule(forward), (torch.randn(1, 2, 5, 5),)


@network
def antialias() -> Any:
    def forward(_: Any, x: Any) -> Any:
        return functional.interpolate(x, size=(4, 4), mode="bilinear", antialias=True)

    return FunctionModule(forward), (torch.randn(1, 2, 9, 9),)


@network
def grid_sample() -> Any:
    def forward(_: Any, x: Any, grid: Any) -> Any:
        return functional.grid_sample(x, grid, align_corners=False)

    return FunctionModule(forward), (torch.randn(1, 2, 6, 6), torch.rand(1, 4, 4, 2) * 2 - 1)


@network
def scatter() -> Any:
    def forward(_: Any, x: Any, at: Any, values: Any) -> Any:
        return x.scatter_reduce(0, at, values, "amax"), x.scatter_add(0, at, values)

    index = torch.tensor([[0, 2, 1], [3, 0, 1]])
    return FunctionModule(forward), (torch.randn(4, 3), index, torch.randn(2, 3))


@network
def index_put() -> Any:
    def forward(_: Any, x: Any, at: Any) -> Any:
        y = x.clone()
        y[:, at] = y[:, at] * 2 + 1
        return torch.where(y > 0, y, torch.zeros_like(y)), y.gather(1, at.expand(3, -1))

    return FunctionModule(forward), (torch.randn(3, 6), torch.tensor([0, 4, 5]))


@network
def cond() -> Any:
    def forward(_: Any, x: Any) -> Any:
        return torch.cond(x.sum() > 0, lambda y: y * 2 + 1, lambda y: y.sin() - 1, (x,))

    return FunctionModule(forward), (torch.rand(3, 4),)


@network
def einsum() -> Any:
    def forward(_: Any, x: Any, y: Any) -> Any:
        return torch.einsum("bik,bjk->bij", x, y), torch.einsum("bik,bjk->ij", x, y)

    return FunctionModule(forward), (torch.randn(2, 3, 4), torch.randn(2, 5, 4))


@network
def topk() -> Any:
    def forward(_: Any, x: Any) -> Any:
        values, at = torch.topk(x, 3, dim=1)
        return values, at, torch.sort(x, dim=1, descending=True)[0], x.argmax(1)

    return FunctionModule(forward), (torch.randn(3, 7),)


@network
def reductions() -> Any:
    def forward(_: Any, x: Any) -> Any:
        return (
            x.mean((0, 2)), x.var(1), x.amax(1, keepdim=True), torch.logsumexp(x, 2),
            torch.cumsum(x, 1), x.norm(dim=2), x.clamp(-0.5, 0.5),
        )  # fmt: skip

    return FunctionModule(forward), (torch.randn(2, 5, 3),)


@network
def half() -> Any:
    module = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)).half()
    return module, (torch.randn(3, 8).half(),)


@network
def brain() -> Any:
    layers = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).bfloat16()
    return FunctionModule(lambda self, x: self.layers(x.bfloat16()).float(), layers=layers), (
        torch.randn(3, 8),
    )


@network
def fake_quantization() -> Any:
    def forward(self: Any, x: Any) -> Any:
        x = torch.fake_quantize_per_tensor_affine(x, 0.05, 0, -128, 127)
        weight = torch.fake_quantize_per_tensor_affine(self.linear.weight, 0.01, 0, -128, 127)
        return functional.linear(x, weight, self.linear.bias)

    return FunctionModule(forward, linear=nn.Linear(8, 4)), (torch.randn(3, 8),)


@network
def spectrum() -> Any:
    def forward(_: Any, x: Any) -> Any:
        return torch.view_as_real(torch.fft.rfft(x))

    return FunctionModule(forward), (torch.randn(2, 16),)


@network
def detection() -> Any:
    def forward(self: Any, x: Any) -> Any:
        raw = self.head(x).flatten(2).transpose(1, 2)
        centres, sizes, scores = raw.split((2, 2, 3), -1)
        boxes = torch.cat([centres.sigmoid() - sizes.exp() / 2, centres + sizes.exp() / 2], -1)
        best, which = scores.softmax(-1).max(-1)
        return boxes, best, which

    return FunctionModule(forward, head=nn.Conv2d(4, 7, 1)), (torch.randn(1, 4, 5, 5),)


def made(name: str) -> Made:
    """A module for inference, its inputs and its dynamic sizes; the same at each call."""
    torch.manual_seed(0)
    module, inputs, *dynamic = MODULES[name]()
    return module.eval(), inputs, dynamic[0] if dynamic else None
