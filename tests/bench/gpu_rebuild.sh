#!/usr/bin/env bash
# Mends kernels where the GPU is: compiles those sources of the plug-ins that differ from what
# gpu_carry.sh carried there, and links the plug-ins and test_kernels_device anew.
#
#   bash tests/bench/gpu_rebuild.sh BIN            BIN: where gpu.sh --prebuilt unpacked the programs,
#                                                  build/gpu.carried; gpu.sh --rebuild calls it itself
#   bash tests/bench/gpu_rebuild.sh BIN --check    says what differs, and compiles nothing
#   bash tests/bench/gpu_rebuild.sh BIN --all      compiles everything
#
# Needs nvcc (CUDACXX, or on the path), the C++ compiler (CXX, or c++) and the headers of cuBLAS, and of
# cuDNN and NCCL for their plug-ins: from the toolkit, or from the packages that came with PyTorch.
# Each source is compiled by a process of its own, for the architectures of the build that was carried. The program
# itself is not compiled: it, what it and its plug-ins have in common, and tests can be changed only
# where our packages are. BIN/kernels.txt says of which sources the plug-ins are, and gpu_run.py puts it beside the
# figures.
#
# Exit code 1: refused, or it does not compile or link; the plug-ins are then as they were. Tests that cannot be
# linked with them, or whose own text differs, are removed, and gpu_run.py says so.
set -euo pipefail
case ${1:-} in
  '' | -h | --help) sed -n '2,18s/^# \{0,1\}//p' "$0"; [[ ${1:-} ]] || exit 2; exit 0 ;;
esac
exec python3 -B "$(dirname "$0")/gpu_rebuild.py" "$@"
