#!/usr/bin/env bash
# clang-tidy over the sources of a list of files, by default those of the last ten commits.
#
#   bash tests/tidy.sh              what the last ten commits changed
#   bash tests/tidy.sh --all        every source: about an hour on two cores
set -euo pipefail
cd "$(dirname "$0")/.."
if [[ ${1:-} == --all ]]; then
  files=$(git ls-files '*.cpp')
else
  base=$(git rev-list -n 1 --skip 10 HEAD)
  files=$(git diff --name-only --diff-filter=AM "${base:-$(git hash-object -t tree /dev/null)}" \
    -- '*.cpp')
fi
# Tests are judged by running them; Highway compiles each source once for every instruction set.
files=$(grep -vE '^(tests|kernels/cpu)/' <<<"$files" || true)
[[ -z $files ]] && { echo "nothing to look at"; exit 0; }
wc -l <<<"$files" | xargs printf 'looking at %s sources\n'
cmake --preset release -B build/tidy -DTROUPE_UNITY=OFF >/dev/null  # which names every source
xargs -P "$(nproc)" -n 2 clang-tidy -p build/tidy --quiet <<<"$files" 2>/dev/null
