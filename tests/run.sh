#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test.
#
#   bash tests/run.sh                  the optimised build
#   bash tests/run.sh --preset dev     the same with ASan and UBSan
#   bash tests/run.sh --room kernels   only the tests of one room
#   bash tests/run.sh -- -R tokenizer  passes the rest to ctest
set -euo pipefail
cd "$(dirname "$0")/.."

preset=release
room=
while (($#)); do
  case $1 in
    --room) room=${2:?--room needs the name of a folder of tests: kernels, runtime, messages, ...}; shift 2 ;;
    --preset) preset=${2:?--preset needs a name: release, dev or tsan}; shift 2 ;;
    --) shift; break ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) echo "tests/run.sh: unknown argument '$1' (see --help)" >&2; exit 2 ;;
  esac
done

compiler=()
[[ $preset == dev ]] && compiler=(fuzz)
bash examples/install_packages.sh build test "${compiler[@]}"

started=$SECONDS
cmake --preset "$preset" -DTROUPE_TESTS=ON >/dev/null
cmake --build --preset "$preset" ${room:+--target "tests_$room"}
printf 'built in %d s (%s); the tests follow, with their seconds at the end\n' \
  $((SECONDS - started)) "$preset"
ctest --preset "$preset" --parallel "$(nproc)" ${room:+--label-regex "$room"} "$@"
