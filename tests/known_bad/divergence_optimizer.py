"""A momentum buffer differs after the step: it shows in the parameters one step later."""

from _training import Training


class Workload(Training):
    def go_wrong(self):
        self.optimizer.state[self.model[0].weight]["momentum_buffer"][0, 0] += 1
