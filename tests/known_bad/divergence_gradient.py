"""The second execution leaves another gradient behind, after the optimizer used the right one."""

from _training import Training


class Workload(Training):
    def go_wrong(self):
        self.model[0].weight.grad[0, 0] += 1
