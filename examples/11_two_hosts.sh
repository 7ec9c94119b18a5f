#!/usr/bin/env bash
# Two hosts, and one that stands by. A host is taken away in the middle of training: all that runs there is gone, and so
# is the way to it. Its part goes on on the spare one, and the weights are those of a run that nobody disturbed, to the bit.
#
#   bash examples/11_two_hosts.sh [PROGRAM]
#
# The hosts are network namespaces of this machine with process namespaces of their own, so that nothing is shared between
# them but files. It needs root or user namespaces, `unshare` and `nsenter` (util-linux), `ip` (iproute2), and ends with 77
# where it may not make them. Nothing is left of it. docs/guides/processes.md says what is done here on real hosts.
#
# Expected output:
#   undisturbed: 600 iterations
#   over two hosts, host 2 is taken away: 600 iterations
#   process:1 moves to the node at 10.213.8.3:7000
#   the run goes on as another process kept it
#   the weights are the same to the bit
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
troupe=${1:-$top/build/release/bin/troupe}
[[ -x $troupe ]] || troupe=$(command -v troupe) || {
  echo "11_two_hosts.sh: build Troupe, or name its program: bash examples/11_two_hosts.sh PROGRAM" >&2
  exit 2
}
troupe=$(realpath "$troupe")

# Once more, in namespaces that end with whatever was started in them.
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
on() { # on N COMMAND..., in this folder
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

# --- a node on each, as a user starts them ------------------------------------------------------------

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

iterations() { # of the log in FILE
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
kill -9 "${host[2]}" # the first process of that host: the kernel ends all others with it, and the network
wait $run || failed moved.txt node-*.txt
echo "over two hosts, host 2 is taken away: $(iterations moved.jsonl) iterations"
grep -o 'process:1 moves to the node at [0-9.:]*[0-9]' moved.txt
grep -o 'the run goes on from iteration [0-9]* as another process kept it' moved.txt | sed 's/from iteration [0-9]* //'
"$troupe" checkpoint diff undisturbed moved >diff.txt || failed diff.txt
echo "the weights are the same to the bit"
