#!/usr/bin/env bash
# Builds what gpu.sh needs and packs it into one file, for a machine with a GPU but without our packages or the network:
# programs, plug-ins, and every library except the system's C and C++ libraries and CUDA's.
# On that machine: bash tests/bench/gpu.sh --prebuilt FOLDER
#
#   bash tests/bench/gpu_carry.sh FOLDER [BUILD_FOLDER]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
to=${1:?usage: gpu_carry.sh FOLDER [BUILD_FOLDER]}
build=${2:-$root/build/release}
bin=$build/bin
most=$((57 << 20))  # With the sources below 64 MiB.
cmake --build "$build" --target troupe bench_gpu plugins test_kernels_device

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lib" "$to"
programs=()
for name in troupe bench_gpu test_kernels_device libtroupe_cuda.so libtroupe_cudnn.so libtroupe_nccl.so libtroupe_ucx.so \
  libtroupe_attention_for_tests.so; do
  if [[ -e $bin/$name ]]; then
    strip -o "$work/$name" "$bin/$name"
    programs+=("$bin/$name")
  else
    echo "gpu_carry.sh: left out, because it was not built: $name"
  fi
done
if TROUPE_PLUGINS=$bin "$bin/troupe" doctor --json | grep 'of another build'; then
  echo "gpu_carry.sh: the program and its plug-ins in '$bin' are of different builds: build them together" >&2
  exit 2
fi

# The machine has these; CUDA's come with its toolkit or with PyTorch.
own='^(linux-vdso|ld-linux.*|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libcuda|libcudart|libcublas.*|libcudnn.*|libnccl.*|libnvrtc.*)\.so'
ldd "${programs[@]}" | awk '$3 ~ "^/" {print $1, $3}' | sort -u | while read -r name path; do
  [[ $name =~ $own ]] || cp -L "$path" "$work/lib/$name"
done
git -C "$root" describe --always --dirty >"$work/commit" || echo unknown >"$work/commit"

tar -czf "$to/troupe.tar.gz" -C "$work" .
size=$(stat -c %s "$to/troupe.tar.gz")
du -ab "$work" | sort -rn | awk -v w="$work" 'NR <= 12 {sub(w, ""); printf "%10.1f MiB %s\n", $1 / 1048576, $2}'
printf 'gpu_carry.sh: %s, %d MiB\n' "$to/troupe.tar.gz" $((size >> 20))
((size <= most)) || { echo "gpu_carry.sh: $to/troupe.tar.gz is above the limit of $((most >> 20)) MiB: build with -DTROUPE_CUDA_ARCHITECTURES=90a-real" >&2; exit 1; }
