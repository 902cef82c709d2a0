"""What the workloads that diverge share: a small training whose second execution in a process goes wrong."""

import torch

executions = 0


class Training:
    def __init__(self):
        global executions
        executions += 1
        self.second = executions > 1
        self.steps = 0

    def setup(self, device):
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)).to(device)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.inputs = torch.randn(16, 8, device=device)

    def step(self):
        loss = self.model(self.inputs).sin().square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        if self.second and self.steps == 2:
            self.go_wrong()
        return loss

    def state(self):
        return {"model": self.model, "optimizer": self.optimizer}
