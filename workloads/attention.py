"""Scaled dot-product attention, causal and masked, forward and backward."""

import torch
from torch.nn.functional import scaled_dot_product_attention


class Workload:
    def setup(self, device: torch.device) -> None:
        shape = (2, 4, 128, 32)
        self.query, self.key, self.value = (torch.randn(shape, device=device, requires_grad=True) for _ in range(3))
        self.mask = torch.rand(128, 128, device=device) > 0.1
        self.mask[:, 0] = True  # a row without any key would be NaN

    def step(self) -> torch.Tensor:
        causal = scaled_dot_product_attention(self.query, self.key, self.value, is_causal=True)
        masked = scaled_dot_product_attention(self.query, self.key, self.value, attn_mask=self.mask)
        loss = (causal * masked.sin()).sum()
        loss.backward()
        return loss

    def state(self) -> dict[str, object]:
        return {"query": self.query, "key": self.key, "value": self.value}
