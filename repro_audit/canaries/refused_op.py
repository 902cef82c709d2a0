"""Must be caught: `Tensor.put_` without accumulate, which strict mode refuses on every device."""

import torch


class Workload:
    def setup(self, device: torch.device) -> None:
        self.slots = torch.zeros(16, device=device)
        self.indices = torch.randint(0, 16, (64,), device=device)

    def step(self) -> torch.Tensor:
        self.slots.put_(self.indices, torch.randn(64, device=self.slots.device))
        return self.slots.sum()

    def state(self) -> dict[str, object]:
        return {"slots": self.slots}
