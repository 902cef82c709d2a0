"""Interpolation in every mode, upwards and downwards, forward and backward."""

import torch
from torch.nn import functional

DIMENSIONS = {"linear": 1, "trilinear": 3}


class Workload:
    variants = ("nearest", "area", "linear", "bilinear", "bicubic", "trilinear", "antialias")
    # Bilinear and trilinear are documented, and take another way in strict mode; area is adaptive average pooling;
    # the antialiased backward raises an alert that the documentation does not list.
    refused = {
        "area": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "linear": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "bilinear": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "bicubic": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "trilinear": {"cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html"},
        "antialias": {
            "cuda": "https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/cuda/UpSampleBilinear2d.cu"
        },
    }

    def __init__(self, variant: str) -> None:
        self.variant = variant

    def setup(self, device: torch.device) -> None:
        self.inputs = [
            torch.randn(2, 3, *(6, 16, 16)[-DIMENSIONS.get(self.variant, 2) :], device=device, requires_grad=True)
        ]
        self.outputs: list[torch.Tensor] = []

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        (images,) = self.inputs
        sharp = {} if self.variant in ("nearest", "area") else {"align_corners": False}
        if self.variant == "antialias":
            self.outputs = [
                functional.interpolate(images, scale_factor=0.6, mode=mode, antialias=True)
                for mode in ("bilinear", "bicubic")
            ]
        elif self.variant == "nearest":
            self.outputs = [
                functional.interpolate(images, scale_factor=2.5, mode=mode) for mode in ("nearest", "nearest-exact")
            ]
        else:
            self.outputs = [
                functional.interpolate(images, scale_factor=factor, mode=self.variant, **sharp) for factor in (2.5, 0.6)
            ]
        loss = sum((output * weight_like(output)).sum() for output in self.outputs)
        loss.backward()
        with torch.no_grad():
            for tensor in self.inputs:
                tensor -= 0.1 * tensor.grad
        return loss

    def state(self) -> dict[str, object]:
        return {"inputs": self.inputs, "outputs": self.outputs}


def weight_like(output: torch.Tensor) -> torch.Tensor:
    """Weights that make every element's gradient another one, so that an order of additions shows."""
    return torch.linspace(-1.0, 1.0, output.numel(), device=output.device).reshape(output.shape)
