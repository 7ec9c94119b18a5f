#!/usr/bin/env bash
# A stage is killed and comes back: the process that it stands in gets a `kill -9` in the middle of training, another one
# takes its place with the state that was kept for it, and the weights are those of a run that nobody disturbed, to the bit.
#
#   bash examples/12_kill_9.sh [PROGRAM]
#
# Watch standard error: it shows `troupe status` before and after, and what the run says. docs/guides/processes.md says what
# survives what. Takes some seconds.
#
# Expected output:
#   undisturbed: 600 iterations
#   before: agent, node-0 and node-1 run beside the supervisor's process
#   kill -9 of node-1, with stage 1 in it
#   process:1 died
#   the run goes on as another process kept it
#   after: node-1 is another process, incarnation 2
#   after: agent, node-0 and supervisor are the processes that they were
#   with a death: 600 iterations
#   every step stands once in the ledger
#   the weights are the same to the bit
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
troupe=${1:-$top/build/release/bin/troupe}
[[ -x $troupe ]] || troupe=$(command -v troupe) || {
  echo "12_kill_9.sh: build Troupe, or name its program: bash examples/12_kill_9.sh PROGRAM" >&2
  exit 2
}
troupe=$(realpath "$troupe")
folder=$(mktemp -d)
run=
ended() { # whatever happens: the run ends before its folder is gone
  if [[ $run ]] && kill -0 "$run" 2>/dev/null; then
    "$troupe" stop --run "$folder/run" >/dev/null 2>&1 || kill "$run" 2>/dev/null || true
    wait "$run" || true
  fi
  rm -rf "$folder"
}
trap ended EXIT
cd "$folder"

# Two replicas of two stages: ranks 0 and 1 are stage 0, 2 and 3 stage 1. Of several processes each has a stretch of ranks,
# so that of two each hosts one stage.
train() { # train NAME FLAG...: the shell that calls it becomes the program, so that it is the one to wait for
  local name=$1
  shift
  exec "$troupe" train gpt --mock-data --tokenizer-type NullTokenizer --vocab-size 128 \
    --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --train-iters 600 --world-size 4 \
    --pipeline-model-parallel-size 2 --threads-per-worker 1 --eval-iters 0 --log-interval 100 \
    --save "$name" --log-file "$name.jsonl" "$@" >"$name.txt" 2>&1
}
iterations() { # of the log of NAME, which may not be there yet
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

# --- who runs -----------------------------------------------------------------------------------------

status() { # status FILE: the table of the run's processes
  "$troupe" status --run run | sed -n '/^process /,$p' >"$1"
}
cell() { # cell COLUMN PROCESS FILE: 3 is the pid, 6 the incarnation, 9 the state; an agent's name has the host's in it
  awk -v column="$1" -v who="$2" '$1 == who || $2 == who {print $column}' "$3"
}
status before
cat before >&2
for who in agent node-0 node-1 supervisor; do
  [[ $(cell 9 $who before) == running ]] || failed before killed.txt
done
echo "before: agent, node-0 and node-1 run beside the supervisor's process"

# --- one of them is killed ----------------------------------------------------------------------------

echo "kill -9 of node-1, with stage 1 in it"
kill -9 "$(cell 3 node-1 before)"
until grep -q 'the run goes on from iteration' killed.txt; do
  kill -0 $run 2>/dev/null || failed killed.txt
  sleep 0.05
done
grep -o 'process:1 died.*' killed.txt >&2
grep -o 'process:1 died' killed.txt # of what: its host's agent says, or a broken connection, whichever is heard first
grep -o 'the run goes on from iteration [0-9]* as another process kept it' killed.txt | sed 's/from iteration [0-9]* //'

# A pid tells one process from another for as long as nobody gets it a second time: `troupe status --json` has the time of
# its start, too.
until
  status after
  [[ $(cell 6 node-1 after) == 2 ]]
do
  kill -0 $run 2>/dev/null || failed after killed.txt
  sleep 0.05
done
cat after >&2
[[ $(cell 3 node-1 after) != "$(cell 3 node-1 before)" ]] || failed before after
echo "after: node-1 is another process, incarnation 2"
for who in agent node-0 supervisor; do
  [[ $(cell 3 $who after) == "$(cell 3 $who before)" ]] || failed before after
done
echo "after: agent, node-0 and supervisor are the processes that they were"

# --- nothing was lost ---------------------------------------------------------------------------------

wait $run || failed killed.txt
run=
echo "with a death: $(iterations killed) iterations"
"$troupe" ledger --run run --check >ledger.txt || failed ledger.txt
echo "every step stands once in the ledger"
"$troupe" checkpoint diff undisturbed killed >diff.txt || failed diff.txt
echo "the weights are the same to the bit"
