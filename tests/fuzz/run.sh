#!/usr/bin/env bash
# Runs all fuzz targets under libFuzzer, one per core at a time.
#
#   bash tests/fuzz/run.sh             20 seconds per target
#   bash tests/fuzz/run.sh 600 text    600 seconds, only targets with "text" in their name
#   bash tests/fuzz/run.sh 5 "" 1      5 seconds per target with libFuzzer's seed 1. Use a fixed seed to check a change:
#                                      the same sources then get the same inputs. Default: a random seed
#   bash tests/fuzz/run.sh --runtime ...   only the targets that need no actors, which build in half of the time
#
# Fails when a target breaks or runs no input. Keeps inputs that break a target as build/dev/<target>-crash-...; also
# those with a timeout or a leak.
set -euo pipefail
cd "$(dirname "$0")/../.."
group=tests_fuzz
[[ ${1:-} != --runtime ]] || { group=tests_fuzz_runtime; shift; }
seconds=${1:-20}
only=${2:-}
seed=${3:-0}  # 0: random

bash examples/install_packages.sh build test fuzz
cmake --preset dev -DTROUPE_TESTS=ON >/dev/null
cmake --build --preset dev --target $group
library=[a-z_]*
[[ $group == tests_fuzz ]] || library=troupe_runtime_[a-z]*
mapfile -t targets < <(sed -nE "s|^troupe_fuzz\\((\\w*$only\\w*) [0-9]+ $library\\)|build/dev/bin/fuzz_\\1|p" tests/fuzz/CMakeLists.txt)
if ((${#targets[@]} == 0)); then
  echo "tests/fuzz/run.sh: no target name contains '$only'" >&2
  exit 2
fi

one() {
  local name=${1##*/fuzz_} log corpus=tests/fuzz/corpus/${1##*/fuzz_} fresh
  log=build/dev/$name.log
  fresh=$(mktemp -d)
  if "$1" -max_total_time="$2" -seed="$3" -artifact_prefix="build/dev/$name-" -rss_limit_mb=1024 "$fresh" \
    $([[ -d $corpus ]] && echo "$corpus") >"$log" 2>&1 && grep -q '^Done [1-9]' "$log"; then
    echo "$name: $(grep -o '^Done .*' "$log")"
  else
    tail -n 30 "$log"
    echo "$name: BROKEN; output: $log, input: build/dev/$name-*"
    rm -rf "$fresh"
    return 1
  fi
  rm -rf "$fresh"
}
export -f one
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'one "$1" "$2" "$3"' _ {} "$seconds" "$seed"
