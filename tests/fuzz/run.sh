#!/usr/bin/env bash
# Runs every fuzz target under libFuzzer, as many at once as there are cores.
#
#   bash tests/fuzz/run.sh             20 seconds each
#   bash tests/fuzz/run.sh 600 text    600 seconds, only targets whose name contains "text"
#   bash tests/fuzz/run.sh 5 "" 1      5 seconds each, the inputs of libFuzzer's seed 1: what a change
#                                      is judged by, so that the same sources get the same inputs; a
#                                      search for new faults leaves the seed to chance
#
# An input that breaks a target stays in build/dev/<target>-crash-...; so do timeouts and leaks.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-20}
only=${2:-}
seed=${3:-0}  # 0: by chance

bash examples/install_packages.sh build test fuzz
cmake --preset dev -DTROUPE_TESTS=ON >/dev/null
cmake --build --preset dev --target tests_fuzz
shopt -s nullglob
targets=(build/dev/bin/fuzz_*"$only"*)
if ((${#targets[@]} == 0)); then
  echo "tests/fuzz/run.sh: no target's name contains '$only'" >&2
  exit 2
fi

one() {
  local name=${1##*/fuzz_} log corpus=tests/fuzz/corpus/${1##*/fuzz_} fresh
  log=build/dev/$name.log
  fresh=$(mktemp -d)
  if "$1" -max_total_time="$2" -seed="$3" -artifact_prefix="build/dev/$name-" -rss_limit_mb=1024 "$fresh" \
    $([[ -d $corpus ]] && echo "$corpus") >"$log" 2>&1; then
    echo "$name: $(grep -o 'Done .*' "$log" || true)"
  else
    tail -n 30 "$log"
    echo "$name: BROKEN; its output is $log, the input build/dev/$name-*"
    rm -rf "$fresh"
    return 1
  fi
  rm -rf "$fresh"
}
export -f one
printf '%s\n' "${targets[@]}" | xargs -P "$(nproc)" -I{} bash -c 'one "$1" "$2" "$3"' _ {} "$seconds" "$seed"
