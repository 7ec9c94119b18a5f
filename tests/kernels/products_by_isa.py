"""Products by one of oneDNN's instruction sets. Run by ctest, once for each that products in float or bf16 differ by.

    products_by_isa.py <test_kernels> <level>
                                        level: as ONEDNN_MAX_CPU_ISA takes it: avx512_core_amx

Where this processor, or this oneDNN, does not have the level, it says so and is SKIPPED: nothing
was asked.
"""

import os
import re
import subprocess
import sys


def main(program, level):
    environment = dict(os.environ, ONEDNN_MAX_CPU_ISA=level.upper())
    asked = subprocess.run([program, "[.instruction_set]"], env=environment, capture_output=True,
                           text=True, check=True)
    taken = re.search(r"\bcpu_isa_(\w+)", asked.stdout)
    if not taken:
        print(f"the program does not say by which instruction set it multiplies:\n{asked.stdout}")
        return 1
    if taken[1] != level:
        print(f"SKIPPED: not asked by {level}, which this processor or oneDNN does not have; "
              f"told to use at most that, oneDNN takes {taken[1]}")
        return 77
    print(f"by {level}:", flush=True)
    # Those of f16 are by vectors of ours whatever oneDNN may use (kernels/cpu/product.hpp): the large ones,
    # which take longest, and every rest are asked without it alone.
    elsewhere = [f"~{name} - f16" for name in ("products are right at every rest",
                                               "large products are right\\, by one thread and several")]
    return subprocess.run([program, "[products]" + "".join(elsewhere)], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
