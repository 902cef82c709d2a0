"""The side of the process boundary that imports torch: it makes the runs and writes down what it saw."""
