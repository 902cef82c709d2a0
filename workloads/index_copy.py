"""index_copy with rows that are written by many sources: the last one has to win every time."""

import torch


class Workload:
    def setup(self, device: torch.device) -> None:
        self.index = torch.randint(0, 32, (8192,), device=device)
        self.target = torch.zeros(32, 16, device=device)

    def step(self) -> torch.Tensor:
        source = torch.randn(8192, 16, device=self.target.device)
        self.target = self.target.index_copy(0, self.index, source)
        return self.target.sum()

    def state(self) -> dict[str, object]:
        return {"target": self.target}
