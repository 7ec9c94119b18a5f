"""Runs a PyTorch script, unchanged, and makes its model on the device.

    peer_on_device.py DEVICE SCRIPT [ARGUMENT...]

A script with `Model().to("cuda")` draws its weights on one core of the host and copies them: more than a minute for five
billion. Here tensors are made on DEVICE until the first `to` of a module; steps are not affected. The weights are other
random numbers of the same distribution.
"""

import runpy
import sys

import torch

device, script = sys.argv[1:3]
to = torch.nn.Module.to


def first_to(module, *where, **how):
    torch.nn.Module.to = to
    torch.set_default_device(None)
    return module.to(*where, **how)


torch.nn.Module.to = first_to
torch.set_default_device(device)
sys.argv = sys.argv[2:]
runpy.run_path(script, run_name="__main__")
