"""Runs the product tests with one oneDNN instruction set. ctest runs it once per set that changes products.

    products_by_isa.py <test_kernels> <level>
                                        level: a value of ONEDNN_MAX_CPU_ISA: avx512_core_amx

Prints SKIPPED if this processor or this oneDNN lacks the level: then no test has run.
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
        print(f"the program does not print the instruction set of its products:\n{asked.stdout}")
        return 1
    if taken[1] != level:
        print(f"SKIPPED: this processor or oneDNN lacks {level}; "
              f"with that limit oneDNN uses {taken[1]}")
        return 77
    print(f"with {level}:", flush=True)
    # f16 products use our own vector code at every level (kernels/cpu/product.hpp), so the slowest f16 tests
    # run only outside this script.
    elsewhere = [f"~{name} - f16" for name in ("products are right at every tail",
                                               "large products are right with one thread and several")]
    filtered = ["[products]" + "".join(elsewhere), "-w", "UnmatchedTestSpec"]
    return subprocess.run([program, *filtered], env=environment).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
