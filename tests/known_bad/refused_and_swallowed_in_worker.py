"""Reaches a refused op in a DataLoader's worker process, which catches the error and goes on without it."""

import torch


class Swallows(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        sample = torch.zeros(4)
        try:
            sample.put_(torch.tensor([0, 0]), torch.tensor([1.0, 2.0]))
        except RuntimeError:
            sample += 1
        return sample


class Workload:
    def setup(self, device):
        self.total = torch.zeros(4, device=device)

    def step(self):
        loader = torch.utils.data.DataLoader(Swallows(), num_workers=1, multiprocessing_context="fork")
        for batch in loader:
            self.total += batch.to(self.total.device).sum(0)
        return self.total.sum()

    def state(self):
        return {"total": self.total}
