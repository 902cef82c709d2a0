"""Scaled dot-product attention, causal and masked, forward and backward."""

import torch
from torch.nn.functional import scaled_dot_product_attention


class Workload:
    def setup(self, device: torch.device) -> None:
        shape = (2, 4, 128, 32)
        self.inputs = [torch.randn(shape, device=device, requires_grad=True) for _ in range(3)]
        self.outputs: list[torch.Tensor] = []
        self.mask = torch.rand(128, 128, device=device) > 0.1
        self.mask[:, 0] = True  # a row without any key would be NaN

    def step(self) -> torch.Tensor:
        for tensor in self.inputs:
            tensor.grad = None
        query, key, value = self.inputs
        causal = scaled_dot_product_attention(query, key, value, is_causal=True)
        masked = scaled_dot_product_attention(query, key, value, attn_mask=self.mask)
        self.outputs = [causal, masked]
        loss = (causal * masked.sin()).sum()
        loss.backward()
        with torch.no_grad():
            for tensor in self.inputs:
                tensor -= 0.1 * tensor.grad
        return loss

    def state(self) -> dict[str, object]:
        return {"inputs": self.inputs, "outputs": self.outputs}
