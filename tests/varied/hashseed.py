"""Depends on the hash seed: on the order of a set of strings."""

from _value import Value


class Workload(Value):
    def value(self):
        return [int(word.removeprefix("word")) for word in {f"word{n}" for n in range(64)}]
