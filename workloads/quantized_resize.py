"""resize_ of a quantized tensor, which strict mode refuses on every device."""

import torch


class Workload:
    refused = {
        "cpu": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
        "cuda": "https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html",
    }

    def setup(self, device: torch.device) -> None:
        values = torch.randn(64, device=device)
        self.quantized = torch.quantize_per_tensor(values, 0.1, 0, torch.qint8)

    def step(self) -> torch.Tensor:
        self.quantized.resize_(96)
        self.quantized.resize_(64)
        return self.quantized.int_repr().sum()

    def state(self) -> dict[str, object]:
        return {"quantized": self.quantized}
