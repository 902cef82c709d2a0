"""A plain number in the state differs in the sign of zero."""

from _training import Training


class Workload(Training):
    zero = 0.0

    def go_wrong(self):
        self.zero = -0.0

    def state(self):
        return {**super().state(), "zero": self.zero}
