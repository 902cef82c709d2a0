"""The contract of a workload: what a file in `workloads/`, or a class of yours, has to offer.

The auditor owns seeds, steps, devices and modes. A workload never seeds, never switches a determinism
flag, and never asks which run it is in::

    '''Linear regression with SGD: the smallest thing that trains.'''

    import torch  # noqa: TID251 - for the type checker only


    class Workload:
        def setup(self, device: torch.device) -> None:
            self.model = torch.nn.Linear(8, 1).to(device)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.inputs = torch.randn(64, 8, device=device)

        def step(self) -> torch.Tensor:
            loss = self.model(self.inputs).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            return loss

        def state(self) -> dict[str, object]:
            return {"model": self.model, "optimizer": self.optimizer}

The file's docstring is its summary, the file's stem its name. Three optional class attributes, all
literals because they are read without importing the file:

`variants`
    A tuple of words. Each makes a case of its own, named ``<file stem>-<word>``, and is passed to the
    class: ``Workload("bilinear")``.
`refused`
    Where strict mode is documented to refuse the workload: device type to the source of that statement,
    as in ``{"cuda": "https://..."}``; with variants, variant to such a mapping.
`dataloader_workers`
    How many workers its DataLoader has, where ``setup`` takes that from here: `repro-audit vary` sets others.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch  # noqa: TID251 - for the type checker only


class Workload(Protocol):
    """What the auditor calls: ``setup`` once, then ``step`` as often as it is told, ``state`` in between."""

    def setup(self, device: "torch.device") -> None:
        """Builds models and data on `device`. All generators were seeded just before."""

    def step(self) -> "torch.Tensor | float":
        """Does one step, usually forward, backward and optimizer.

        Returns:
            The loss: a tensor of one element of any real dtype, or a Python number.
        """

    def state(self) -> Mapping[str, object]:
        """Everything that has to be equal bit for bit, asked for after ``setup`` and after every ``step``.

        Returns:
            A nest of mappings, lists and tuples. Leaves are tensors, NumPy arrays, numbers, strings, bytes
            and None. Modules give their parameters, gradients and buffers; optimizers, and whatever else
            has a ``state_dict()``, give that; generators give their state. What is compared are the leaves under
            their paths: an empty container has none, a list is as good as a tuple, and the key 1 as "1".
            The paths ``loss`` and ``rng/...`` are the auditor's own: leaves of that name move below ``state/``.
        """
