#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test.
#
#   bash tests/run.sh                  the optimised build
#   bash tests/run.sh --preset dev     with ASan and UBSan, without what they need not repeat
#   bash tests/run.sh --room kernels   only the tests of one room; may be said several times
#   bash tests/run.sh -- -R tokenizer  passes the rest to ctest
#
# What is built for CUDA is built for H100 and H200 alone, unless the folder was configured for others.
set -euo pipefail
cd "$(dirname "$0")/.."

rooms=(actors architecture bench collective command device emulator examples fuzz kernels messages
       package readme runtime scenario)
preset=release
targets=()
labels=
while (($#)); do
  case $1 in
    --room)
      if [[ " ${rooms[*]} " != *" ${2:-} "* ]]; then
        echo "tests/run.sh: there is no room '${2:-}' of tests; there are: ${rooms[*]}" >&2
        exit 2
      fi
      targets+=("tests_$2")
      labels+="${labels:+|}$2"
      shift 2
      ;;
    --preset) preset=${2:?--preset needs a name: release, dev or tsan}; shift 2 ;;
    --) shift; break ;;
    -h | --help) sed -n '2,9s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "tests/run.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done

compiler=()
[[ $preset == dev ]] && compiler=(fuzz)
bash examples/install_packages.sh build test "${compiler[@]}"

started=$SECONDS
fresh=()
[[ -f build/$preset/CMakeCache.txt ]] || fresh=(-DTROUPE_CUDA_ARCHITECTURES=90a-real)
cmake --preset "$preset" -DTROUPE_TESTS=ON "${fresh[@]}" >/dev/null
cmake --build --preset "$preset" ${targets:+--target "${targets[@]}"}
printf 'built in %d s (%s); the tests follow, with their seconds at the end\n' \
  $((SECONDS - started)) "$preset"
# TSan has fixed places for its own memory, which the kernel's random ones of a program now and then overlap.
runner=()
[[ $preset == tsan ]] && setarch --addr-no-randomize true 2>/dev/null && runner=(setarch --addr-no-randomize)
# Two halves of each core, and one for a test that mostly waits: tests/CMakeLists.txt says which these are. By
# hand, too, ctest is told twice as many as there are cores, and one.
"${runner[@]}" ctest --preset "$preset" --parallel $((2 * $(nproc) + 1)) ${labels:+--label-regex "^($labels)$"} "$@"
