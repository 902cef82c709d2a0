"""A running statistic differs, which no loss of a training step depends on."""

from _training import Training


class Workload(Training):
    def go_wrong(self):
        self.model[1].running_var[0] = -0.0
