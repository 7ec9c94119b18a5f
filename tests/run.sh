#!/usr/bin/env bash
# Installs what is missing, builds, and runs the tests that every change must pass.
#
#   bash tests/run.sh                  the optimised build, tier `change`: what .ci/run runs
#   bash tests/run.sh --all            both tiers: `change`, and `full`, which .ci/full runs (tests/tiers.cmake)
#   bash tests/run.sh --preset dev     with ASan and UBSan; --preset tsan: with TSan
#   bash tests/run.sh --room kernels   builds and runs the tests of one room; may be given several times
#   bash tests/run.sh -- -R tokenizer  passes the rest to ctest
#
# CUDA sources are compiled for H100 and H200, unless the build folder was configured for other devices.
set -euo pipefail
cd "$(dirname "$0")/.."

rooms=(actors architecture bench collective command device emulator examples fuzz kernels messages
       package readme runtime scenario)
preset=release
targets=()
labels=
tier=(--label-exclude '^full$')
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
    --all) tier=(); shift ;;
    --) shift; break ;;
    -h | --help) sed -n '2,10s/^# \{0,1\}//p' "$0"; exit 0 ;;
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

# TSan reserves fixed addresses, which a program's random addresses sometimes overlap.
runner=()
[[ $preset == tsan ]] && setarch --addr-no-randomize true 2>/dev/null && runner=(setarch --addr-no-randomize)
# Holds the order of mock data's samples, which all tests share (tests/command/cli_test.py).
shared=$(mktemp -d)
trap 'rm -rf "$shared"' EXIT
# A test takes two halves of a core, and one that mostly waits takes one half (tests/tiers.cmake).
ended=0
TROUPE_TEST_SHARED=$shared "${runner[@]}" ctest --preset "$preset" --parallel $((2 * $(nproc) + 1)) \
  ${labels:+--label-regex "^($labels)$"} "${tier[@]}" --output-junit "$shared/tests.xml" "$@" || ended=$?
# Tests that were skipped count as passed, so they and their reasons are shown.
log=build/$preset/Testing/Temporary/LastTest.log
skipped=$(awk '/explicitly with message:/ { getline; print } /^ *SKIPPED: ./ || /^skipped: ./' "$log" 2>/dev/null |
  sort | uniq -c) || true
[[ -z $skipped ]] || printf 'skipped:\n%s\n' "$skipped"
# Lists the skipped tests for .ci/full.
[[ -z ${TROUPE_SKIPPED:-} ]] ||
  sed -n '/status="notrun"/{s/.*<testcase name="\([^"]*\)".*/\1/;N;s/\n.*message="SKIP_.*//p}' "$shared/tests.xml" \
  >>"$TROUPE_SKIPPED" || true
exit $ended
