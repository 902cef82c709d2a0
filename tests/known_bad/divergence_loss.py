"""The second execution in a process returns another loss; nothing else differs."""

from _training import Training


class Workload(Training):
    def go_wrong(self):
        self.wrong = True

    def step(self):
        loss = super().step()
        return loss + 1 if hasattr(self, "wrong") else loss
