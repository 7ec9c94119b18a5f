#!/usr/bin/env bash
# Kills a stage: its process gets a `kill -9` during training. A new process restarts the stage from its peer's copy of
# the state, and the weights equal those of an undisturbed run, bit for bit.
#
#   bash examples/12_kill_9.sh [PROGRAM]
#
# Prints `troupe status` before and after, and messages of the run, to standard error. docs/guides/processes.md explains
# which failures a run survives. Takes some seconds.
#
# Expected output:
#   undisturbed: 600 iterations
#   before: agent, node-0, node-1 and supervisor are running
#   kill -9 of node-1, with stage 1 in it
#   process:1 died
#   the run continues with a peer's copy of the state
#   after: node-1 is a new process, incarnation 2
#   after: agent, node-0 and supervisor are the same processes
#   with a death: 600 iterations
#   the ledger has each step once
#   the weights have the same bits
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
troupe=${1:-$top/build/release/bin/troupe}
[[ -x $troupe ]] || troupe=$(command -v troupe) || {
  echo "12_kill_9.sh: no program found; build Troupe or run: bash examples/12_kill_9.sh PROGRAM" >&2
  exit 2
}
troupe=$(realpath "$troupe")
folder=$(mktemp -d)
run=
ended() { # ends the run, in all cases, before its folder is removed
  if [[ $run ]] && kill -0 "$run" 2>/dev/null; then
    "$troupe" stop --run "$folder/run" >/dev/null 2>&1 || kill "$run" 2>/dev/null || true
    wait "$run" || true
  fi
  rm -rf "$folder"
}
trap ended EXIT
cd "$folder"

# Two replicas of two stages: ranks 0 and 1 are stage 0, ranks 2 and 3 are stage 1. Each process hosts consecutive
# ranks, so each of two processes hosts one stage.
train() { # train NAME FLAG...: replaces the calling shell by the program, so that `wait` waits for the program
  local name=$1
  shift
  exec "$troupe" train gpt --mock-data --tokenizer-type NullTokenizer --vocab-size 128 \
    --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --train-iters 600 --world-size 4 \
    --pipeline-model-parallel-size 2 --threads-per-worker 1 --eval-iters 0 --log-interval 100 \
    --save "$name" --log-file "$name.jsonl" "$@" >"$name.txt" 2>&1
}
iterations() { # iterations NAME: number of steps in the log; 0 if the log does not exist yet
  if [[ -e $1.jsonl ]]; then grep -c state_digest "$1.jsonl" || true; else echo 0; fi
}
failed() {
  cat "$@" >&2
  exit 1
}

(train undisturbed) || failed undisturbed.txt
echo "undisturbed: $(iterations undisturbed) iterations"

train killed --processes 2 --run run &
run=$!
until (($(iterations killed) >= 20)); do
  kill -0 $run 2>/dev/null || failed killed.txt
  sleep 0.05
done

# --- the processes ------------------------------------------------------------------------------------

status() { # status FILE: writes the table of the run's processes
  "$troupe" status --run run | sed -n '/^process /,$p' >"$1"
}
# Columns: 3 is the pid, 6 the incarnation, 9 the state. The name of an agent contains its host.
cell() { # cell COLUMN PROCESS FILE
  awk -v column="$1" -v who="$2" '$1 == who || $2 == who {print $column}' "$3"
}
status before
cat before >&2
for who in agent node-0 node-1 supervisor; do
  [[ $(cell 9 $who before) == running ]] || failed before killed.txt
done
echo "before: agent, node-0, node-1 and supervisor are running"

# --- kill one of them ---------------------------------------------------------------------------------

echo "kill -9 of node-1, with stage 1 in it"
kill -9 "$(cell 3 node-1 before)"
until grep -q 'the run continues from iteration' killed.txt; do
  kill -0 $run 2>/dev/null || failed killed.txt
  sleep 0.05
done
grep -o 'process:1 died.*' killed.txt >&2
grep -o 'process:1 died' killed.txt # the cause varies: the host agent or a broken connection may report it first
grep -o "the run continues from iteration [0-9]* with a peer's copy of the state" killed.txt | sed 's/from iteration [0-9]* //'

# A pid identifies a process only until it is reused; `troupe status --json` also has the start time.
until
  status after
  [[ $(cell 6 node-1 after) == 2 ]]
do
  kill -0 $run 2>/dev/null || failed after killed.txt
  sleep 0.05
done
cat after >&2
[[ $(cell 3 node-1 after) != "$(cell 3 node-1 before)" ]] || failed before after
echo "after: node-1 is a new process, incarnation 2"
for who in agent node-0 supervisor; do
  [[ $(cell 3 $who after) == "$(cell 3 $who before)" ]] || failed before after
done
echo "after: agent, node-0 and supervisor are the same processes"

# --- check that no step was lost ----------------------------------------------------------------------

wait $run || failed killed.txt
run=
echo "with a death: $(iterations killed) iterations"
"$troupe" ledger --run run --check >ledger.txt || failed ledger.txt
echo "the ledger has each step once"
"$troupe" checkpoint diff undisturbed killed >diff.txt || failed diff.txt
echo "the weights have the same bits"
