#!/usr/bin/env bash
# Measures troupe on a machine with an NVIDIA GPU. Ends with a table for each part; logs are in a folder.
#
#   bash tests/bench/gpu.sh --peer FILE            builds, then runs all parts
#   bash tests/bench/gpu.sh --prebuilt FOLDER      runs the programs that gpu_carry.sh packed
#   bash tests/bench/gpu.sh --smoke                runs tiny models on the emulated device
#
#   --part PART,...      quick: everything once, correctness first, within 240 s; losses; gpt2, 1.3b, llama: training
#                        steps; kernels: tests and operations; sanitizer. Default: all
#   --peer FILE          script that trains the same models with PyTorch. Default: no comparison
#   --peer-python FILE   the Python with the newest PyTorch. Default: python3
#   --out FOLDER         logs. Default: build/gpu
#   --save FOLDER        copy of the table and one archive of the logs per part, written after every command
#   --seconds N          limit of all parts together; each part also has its own
#
# No part needs the network. Building needs our packages (examples/install_packages.sh) and nvcc. A step that fails or has
# no time left becomes a row of the table, and the rest goes on. Exit code 1: a step failed, or a loss or digest is wrong.
# A missed goal of speed is only in the table.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

libraries=${LD_LIBRARY_PATH:-} smoke='' prebuilt='' out=$root/build/gpu words=()
while (($#)); do
  case $1 in
    --smoke) smoke=yes words+=("$1"); shift ;;
    --prebuilt) prebuilt=${2:?--prebuilt needs the folder that gpu_carry.sh wrote}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --part | --peer | --peer-python | --save | --seconds) words+=("$1" "${2:?$1 needs a value}"); shift 2 ;;
    -h | --help) sed -n '2,19s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "gpu.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
mkdir -p "$out"
out=$(cd "$out" && pwd)

if [[ $prebuilt ]]; then
  bin=$out.carried  # Beside the logs: only the logs are brought back.
  # The mark comes before the files: what an interrupted call has unpacked is known as ours.
  if [[ -e $bin && ! -f $bin/carried && $(ls -A "$bin") ]]; then
    echo "gpu.sh: '$bin' has files that no earlier call unpacked; move it, or name another --out" >&2
    exit 2
  fi
  rm -rf "$bin"
  mkdir "$bin"
  touch "$bin/carried"
  tar -xzf "$prebuilt/troupe.tar.gz" -C "$bin" || { echo "gpu.sh: cannot unpack '$prebuilt/troupe.tar.gz'; write it with tests/bench/gpu_carry.sh" >&2; exit 2; }
  libraries=$bin/lib${libraries:+:$libraries}
else
  bin=$root/build/release/bin
  targets=(troupe bench_gpu)
  if [[ $smoke ]]; then targets+=(emulated_plugins); else targets+=(plugins test_kernels_device); fi
  (cd "$root" && cmake --preset release -DTROUPE_TESTS=ON >"$out/cmake.log")
  cmake --build "$root/build/release" --target "${targets[@]}" >"$out/build.log" \
    || { tail -20 "$out/build.log"; echo "gpu.sh: the build failed; see '$out/build.log'" >&2; exit 1; }
fi
if [[ $smoke ]]; then
  export TROUPE_PLUGINS=${TROUPE_PLUGINS:-$root/build/release/emulated}
else
  # cuBLAS, cuDNN and NCCL often come with PyTorch, outside the loader's path.
  for folder in $(python3 -c 'import nvidia, pathlib; print(*(d for p in nvidia.__path__ for d in pathlib.Path(p).glob("*/lib")))' 2>/dev/null); do
    libraries=${libraries:+$libraries:}$folder
  done
fi
exec python3 -B "$root/tests/bench/gpu_run.py" --bin "$bin" --out "$out" --libraries "$libraries" "${words[@]}"
