"""Lists the names of the flags of Megatron-LM's pretrain_gpt, taken from its parser.

    git clone https://github.com/NVIDIA/Megatron-LM && python make.py Megatron-LM > flags.txt

Needs PyTorch and the other imports of Megatron-LM. flags.txt was made with Python 3.11 and PyTorch 2.6,
without a GPU. Parts that Megatron-LM needs only during its imports are replaced by stubs.
"""

import argparse
import subprocess
import sys
import typing
from unittest import mock


def stand_in_for_what_is_missing():
    import torch
    import typing_extensions
    typing.override = typing_extensions.override
    for name in ("float8_e8m0fnu", "float4_e2m1fn_x2"):
        if not hasattr(torch, name):
            setattr(torch, name, torch.uint8)
    if not torch.cuda.is_available():
        from triton.runtime.driver import driver
        driver.set_active(mock.MagicMock())


def names(checkout):
    sys.path.insert(0, checkout)
    from megatron.post_training.arguments import add_modelopt_args  # pretrain_gpt.py adds these
    from megatron.training.arguments import add_megatron_arguments
    parser = argparse.ArgumentParser(allow_abbrev=False)
    add_megatron_arguments(parser)
    add_modelopt_args(parser)
    return sorted(name for action in parser._actions for name in action.option_strings
                  if name.startswith("--") and name != "--help")


stand_in_for_what_is_missing()
commit = subprocess.run(["git", "-C", sys.argv[1], "rev-parse", "HEAD"], capture_output=True,
                        text=True, check=True).stdout.strip()
print("# Megatron-LM", commit)
print("\n".join(names(sys.argv[1])))
