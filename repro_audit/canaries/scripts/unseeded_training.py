"""A script that no audit may call repeatable: nothing is seeded."""

import torch

model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = model(torch.ones(2, 4)).square().mean()
loss.backward()
optimizer.step()
