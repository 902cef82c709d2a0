"""DataLoader with two workers, shuffled by a generator, random augmentation in the workers."""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noisy(Dataset[torch.Tensor]):
    """Samples that draw from the worker's own generators."""

    def __len__(self) -> int:
        return 48

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((8,), index / 48) + 0.1 * torch.rand(8) + 0.1 * random.random()


def seed_worker(_: int) -> None:
    # PyTorch seeds torch and random in a worker; other generators would go here
    # (https://docs.pytorch.org/docs/stable/notes/randomness.html#dataloader).
    random.seed(torch.initial_seed() % 2**32)


class Workload:
    dataloader_workers = 2

    def setup(self, device: torch.device) -> None:
        self.model = nn.Linear(8, 1).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.generator = torch.Generator().manual_seed(99)
        # Workers yield CPU tensors only, so forking them is safe although CUDA is in use.
        self.loader = DataLoader(
            Noisy(),
            batch_size=16,
            shuffle=True,
            num_workers=self.dataloader_workers,
            worker_init_fn=seed_worker,
            generator=self.generator,
            multiprocessing_context="fork" if self.dataloader_workers else None,
        )
        self.left = 0

    def step(self) -> torch.Tensor:
        if self.left == 0:  # the next epoch, with new workers
            self.batches, self.left = iter(self.loader), len(self.loader)
        batch = next(self.batches)
        self.left -= 1
        if self.left == 0:
            del self.batches  # its workers end with the epoch, not when this process does
        loss = (self.model(batch.to(self.model.weight.device)) - 1).square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, object]:
        return {"model": self.model, "optimizer": self.optimizer, "generator": self.generator}
