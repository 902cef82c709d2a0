"""resize_ of a quantized tensor, which strict mode refuses; it exists on the CPU only."""

import torch


class Workload:
    refused = {
        "cpu": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
        "cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
    }

    def setup(self, device: torch.device) -> None:
        # On the CPU whatever the device: CUDA has no resize_ for quantized tensors
        # (https://github.com/pytorch/pytorch/blob/v2.13.0/aten/src/ATen/native/native_functions.yaml).
        values = torch.randn(64)
        self.quantized = torch.quantize_per_tensor(values, 0.1, 0, torch.qint8)

    def step(self) -> torch.Tensor:
        self.quantized.resize_(96)
        self.quantized.resize_(64)
        return self.quantized.int_repr().sum()

    def state(self) -> dict[str, object]:
        return {"quantized": self.quantized}
