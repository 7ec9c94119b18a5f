#!/usr/bin/env bash
# Trains on two hosts with a spare one. During training one host disappears, with all its processes and its network. Its
# ranks move to the spare host, and the weights equal those of an undisturbed run, bit for bit.
#
#   bash examples/11_two_hosts.sh [PROGRAM]
#
# The hosts are network and process namespaces of this machine; they share only files. The script needs root or user
# namespaces, `unshare` and `nsenter` (util-linux) and `ip` (iproute2). It exits with 77 if it may not make namespaces,
# and leaves no files or processes. docs/guides/processes.md describes the same on real hosts.
#
# Expected output:
#   undisturbed: 600 iterations
#   two hosts, host 2 disappears: 600 iterations
#   process:1 moves to the node at 10.213.8.3:7000
#   the run continues with a peer's copy of the state
#   the weights have the same bits
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
troupe=${1:-$top/build/release/bin/troupe}
[[ -x $troupe ]] || troupe=$(command -v troupe) || {
  echo "11_two_hosts.sh: no program found; build Troupe or run: bash examples/11_two_hosts.sh PROGRAM" >&2
  exit 2
}
troupe=$(realpath "$troupe")

# Runs itself again in namespaces; the end of the namespaces kills all processes in them.
if [[ -z ${TROUPE_TWO_HOSTS:-} ]]; then
  namespaces=(unshare --net --mount --pid --fork --kill-child --mount-proc)
  ((EUID == 0)) || namespaces=(unshare --user --map-root-user "${namespaces[@]:1}")
  if ! refusal=$("${namespaces[@]}" sh -c 'ip link add br0 type bridge && ip link add one0 type veth peer name two0' 2>&1); then
    echo "skipped: no network namespaces here: $refusal" >&2
    exit 77
  fi
  TROUPE_TWO_HOSTS=1 exec "${namespaces[@]}" bash "$0" "$troupe"
fi

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

# --- three hosts on one network ---------------------------------------------------------------------

ip link set lo up
ip link add br0 type bridge
ip addr add 10.213.8.254/24 dev br0
ip link set br0 up
for n in 1 2 3; do
  unshare --net --pid --fork --kill-child --mount-proc sleep infinity 2>"host-$n.err" &
  outer=$!
  until [[ -s host-$n.pid ]]; do
    cat "/proc/$outer/task/$outer/children" >"host-$n.pid" 2>/dev/null || true
    sleep 0.05
  done
  host[n]=$(tr -d ' ' <"host-$n.pid")
  ip link add "to-$n" type veth peer name eth0 netns "${host[n]}"
  ip link set "to-$n" master br0 up
done
on() { # on N COMMAND...: runs it on host N, in this folder
  local at=${host[$1]}
  shift
  nsenter --target "$at" --net --pid --mount sh -c 'cd "$0" && exec "$@"' "$folder" "$@"
}
failed() {
  cat "$@" >&2
  exit 1
}
for n in 1 2 3; do
  on $n ip addr add "10.213.8.$n/24" dev eth0
  on $n ip link set eth0 up
  on $n ip link set lo up
done

# --- one node per host, started as a user does ----------------------------------------------------------

"$troupe" credentials keys >/dev/null
for n in 1 2 3; do
  on $n "$troupe" node --listen "10.213.8.$n:7000" --credentials keys --run "node-$n" --suspicion-seconds 5 \
    >"node-$n.txt" 2>&1 &
  until grep -qs 'waits for jobs' "node-$n.txt"; do
    kill -0 $! 2>/dev/null || failed "node-$n.txt"
    sleep 0.1
  done
done

# --- the same training, with and without the loss of a host --------------------------------------------

iterations() { # iterations FILE: number of steps in the log
  cat "$1" 2>/dev/null | grep -c state_digest || true
}
train() { # train NAME FLAG...
  local name=$1
  shift
  on 1 "$troupe" train gpt --mock-data --tokenizer-type NullTokenizer --vocab-size 128 \
    --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32 --max-position-embeddings 32 \
    --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --train-iters 600 --world-size 4 \
    --pipeline-model-parallel-size 2 --threads-per-worker 1 --eval-iters 0 --log-interval 100 \
    --save "$folder/$name" --log-file "$folder/$name.jsonl" "$@" >"$name.txt" 2>&1
}

train undisturbed || failed undisturbed.txt
echo "undisturbed: $(iterations undisturbed.jsonl) iterations"

train moved --nodes 10.213.8.1:7000,10.213.8.2:7000 --spare-nodes 10.213.8.3:7000 --credentials keys \
  --suspicion-seconds 5 &
run=$!
until (($(iterations moved.jsonl) >= 20)); do
  kill -0 $run 2>/dev/null || failed moved.txt
  sleep 0.05
done
kill -9 "${host[2]}" # the first process of the namespaces: the kernel then ends all others and the network
wait $run || failed moved.txt node-*.txt
echo "two hosts, host 2 disappears: $(iterations moved.jsonl) iterations"
grep -o 'process:1 moves to the node at [0-9.:]*[0-9]' moved.txt
grep -o "the run continues from iteration [0-9]* with a peer's copy of the state" moved.txt | sed 's/from iteration [0-9]* //'
"$troupe" checkpoint diff undisturbed moved >diff.txt || failed diff.txt
echo "the weights have the same bits"
