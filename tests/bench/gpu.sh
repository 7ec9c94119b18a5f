#!/usr/bin/env bash
# What a machine with an NVIDIA GPU is to show: one command, tables last, logs in a folder.
#
#   bash tests/bench/gpu.sh --peer FILE            builds, then measures everything
#   bash tests/bench/gpu.sh --prebuilt FOLDER      without building: see gpu_carry.sh
#   bash tests/bench/gpu.sh --smoke                the same with tiny models on the emulated device
#
#   --part PART,...  quick: whether all of it works, in 240 s; losses; gpt2, 1.3b, llama: training
#                    steps; kernels: tests and operations; sanitizer. Default: all
#   --rebuild        with --prebuilt: first compiles those kernels that were changed since, within 150 s
#   --keep           with --prebuilt: goes on with what an earlier call with this --out unpacked and compiled
#   --peer FILE      trains the same models with PyTorch; without it nothing is compared
#   --peer-python FILE   the Python that has the newest PyTorch; default: python3
#   --out FOLDER     of the logs; default: build/gpu
#   --save FOLDER    after every command: the table so far and one archive of the logs of each part
#   --seconds N      the most that all of it may take; each part has a limit of its own
#
# No part needs the network. Building needs our packages (examples/install_packages.sh) and nvcc. Nothing ends the rest: what
# fails or does not fit in stands in the table. Exit code 1: something failed, or a loss or digest is not as
# it must be (fp32 within 1e-4 of the CPU over 20 steps and 1e-3 over 100, bf16 within 1 %, two runs alike);
# a goal of speed that is missed stands in the table alone.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)

libraries=${LD_LIBRARY_PATH:-} smoke='' prebuilt='' rebuild='' keep='' seconds='' out=$root/build/gpu words=()
while (($#)); do
  case $1 in
    --smoke) smoke=yes; shift ;;
    --prebuilt) prebuilt=${2:?--prebuilt needs the folder that gpu_carry.sh made}; shift 2 ;;
    --out) out=${2:?--out needs a folder}; shift 2 ;;
    --rebuild) rebuild=yes; shift ;;
    --keep) keep=yes; shift ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --part | --peer | --peer-python | --save) words+=("$1" "${2:?$1 needs a value}"); shift 2 ;;
    -h | --help) sed -n '2,23s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "gpu.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done
if [[ $rebuild$keep && ! $prebuilt ]]; then
  echo "gpu.sh: --rebuild and --keep are of what was carried: name its folder with --prebuilt" >&2
  exit 2
fi
left() { echo $((seconds > SECONDS ? seconds - SECONDS : 0)); }
mkdir -p "$out"
out=$(cd "$out" && pwd)

if [[ $prebuilt ]]; then
  [[ -f $prebuilt/troupe.tar.gz ]] || { echo "gpu.sh: there is no troupe.tar.gz in '$prebuilt'; make it with tests/bench/gpu_carry.sh" >&2; exit 2; }
  bin=$out.carried  # beside the logs, which are all that is brought back
  of=$(cksum <"$prebuilt/troupe.tar.gz")
  if [[ ! $keep || $(cat "$bin/carried" 2>/dev/null) != "$of" ]]; then
    rm -rf "$bin"
    mkdir -p "$bin"
    tar -xzf "$prebuilt/troupe.tar.gz" -C "$bin"
    echo "$of" >"$bin/carried"
  fi
  libraries=$bin/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  if [[ $rebuild ]]; then
    limit=150
    [[ $seconds ]] && (($(left) < limit)) && limit=$(left)
    status=0
    timeout -s KILL "$((limit + 1))" bash "$root/tests/bench/gpu_rebuild.sh" "$bin" || status=$?
    ((status != 137)) || echo "gpu.sh: compiling took more than $limit s: it was ended, and nothing is measured" >&2
    ((status == 0)) || exit 1
  else  # figures are of what is there: it only says what differs
    rm -f "$bin/kernels.txt"
    bash "$root/tests/bench/gpu_rebuild.sh" "$bin" --check \
      || echo "gpu.sh: of which sources the programs in '$bin' are is not known" >&2
  fi
else
  (cd "$root" && cmake --preset release -DTROUPE_TESTS=ON >"$out/cmake.log")
  targets=(troupe bench_gpu)
  if [[ $smoke ]]; then
    targets+=(emulated_plugins)
  else
    targets+=(plugins test_kernels_device)
  fi
  cmake --build "$root/build/release" --target "${targets[@]}" >"$out/build.log" \
    || { tail -20 "$out/build.log"; echo "gpu.sh: it does not build; the log is '$out/build.log'" >&2; exit 1; }
  bin=$root/build/release/bin
fi
if [[ $smoke ]]; then
  export TROUPE_PLUGINS=${TROUPE_PLUGINS:-$root/build/release/emulated}
  words+=(--smoke)
else
  # cuBLAS, cuDNN and NCCL often come with PyTorch and are not on the loader's path.
  for folder in $(python3 -c 'import nvidia, pathlib; print(*(d for p in nvidia.__path__ for d in pathlib.Path(p).glob("*/lib")))' 2>/dev/null); do
    libraries=${libraries:+$libraries:}$folder
  done
fi
[[ ! $seconds ]] || words+=(--seconds "$(left)")
exec python3 -B "$root/tests/bench/gpu_run.py" --bin "$bin" --out "$out" --libraries "$libraries" "${words[@]}"
