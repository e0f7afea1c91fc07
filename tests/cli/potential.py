"""The configuration of a small model of energies and forces, for tests of its runs and predictions."""


def potential_config(data, run, steps, radius=4.0, batch=8):
    return f"""[model]
family = "gnn"
conv = "schnet"
layers = 2
width = 16
radius = {radius}
radial = 12

[[model.outputs]]
name = "energy"
per_atom = true

[[model.outputs]]
name = "forces"
derivative_of = "energy"
weight = 5.0

[data]
train = ["{data}"]

[train]
global_batch = {batch}
micro_batch = {batch}
steps = {steps}
threads = 1

[optimizer]
learning_rate = 5e-3

[checkpoint]
folder = "{run}"
"""
