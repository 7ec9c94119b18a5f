#!/usr/bin/env bash
# Trains a mixture of experts and a dense model of equal FLOPs on the King James Bible (a Debian package). The mixture
# predicts held-out chapters better.
#
#   bash examples/14_experts.sh [PROGRAM [FLAG...]]        flags of `troupe train gpt` for both, such as --seed 2
#
# A token uses 2 of 8 experts in each layer. An expert has half the width of the dense layer, so a token costs as many
# FLOPs. Both models have the same data in the same order, the same learning rate and the same number of steps. The
# experts are shared by two workers. docs/guides/layouts.md#experts explains the flags.
#
# Prints a table with speed and loss to standard error. The loss was 3.29 for the dense model and 3.24 for the mixture.
# The dense model learns better at a rate of 1e-2: it then had 3.28, which is still higher. Takes a minute on two cores.
#
# Expected output:
#   dense: 196928 parameters, 196928 active per token, 1228800 FLOPs per token
#   experts: 492864 parameters, 197952 active per token, 1228800 FLOPs per token
#   the mixture of experts has the lower loss
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
troupe=${1:-$top/build/release/bin/troupe}
shift $(($# > 0))
[[ -x $troupe ]] || troupe=$(command -v troupe) || {
  echo "14_experts.sh: no program found; build Troupe or run: bash examples/14_experts.sh PROGRAM" >&2
  exit 2
}
troupe=$(realpath "$troupe")
if ! command -v bible >/dev/null; then
  echo "14_experts.sh: no text found; run: bash examples/install_packages.sh text" >&2
  exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed() {
  cat "$@" >&2
  exit 1
}

# --- text, tokenizer, data set ------------------------------------------------------------------------

# A document for each chapter, with a line for each verse. Every twentieth chapter is held out.
bible -f Gen1:1-Rev22:21 |
  awk '{ split($1, at, ":"); sub(/^[^ ]+ /, "") }
       at[1] != chapter { chapter = at[1]; file = ++n % 20 ? "train.txt" : "held_out.txt"; print "" >file }
       { print >file }'
tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file words/vocab.json --merge-file words/merges.txt)
"$troupe" tokenizer train --input train.txt --vocab-size 1024 --output words >data.txt 2>&1 || failed data.txt
"$troupe" preprocess --input train.txt --output-prefix train "${tokenizer[@]}" --append-eod >data.txt 2>&1 ||
  failed data.txt

# --- the two models -----------------------------------------------------------------------------------

common=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --ffn-hidden-size 256 --swiglu --normalization RMSNorm
        --disable-bias-linear --position-embedding-type rope --seq-length 64 --max-position-embeddings 64
        --attention-dropout 0 --hidden-dropout 0 --init-method-std 0.03
        --micro-batch-size 8 --global-batch-size 16 --train-iters 1000 --lr 5e-3 --min-lr 5e-4 --lr-decay-style cosine
        --lr-warmup-iters 50 --adam-beta2 0.95 --weight-decay 0.1 --clip-grad 1.0
        --data-path train_text_document --split 100,0,0 "${tokenizer[@]}"
        --world-size 2 --threads-per-worker 1 --eval-iters 0 --log-interval 100)
# The weights of the two chosen experts add up to 1. The factor 2 gives both together the initial output of the dense
# layer; without it the loss is 0.02 higher. The balance loss keeps all experts in use.
experts=(--num-experts 8 --moe-router-topk 2 --moe-ffn-hidden-size 128 --moe-router-topk-scaling-factor 2
         --moe-aux-loss-coeff 0.01 --expert-model-parallel-size 2)

train() { # train NAME FLAG...: sets loss_NAME
  local name=$1 parameters active flops tokens loss
  shift
  "$troupe" train gpt "${common[@]}" "$@" --dry-run >"$name.txt" 2>&1 || failed "$name.txt"
  parameters=$(sed -n 's/.*; \([0-9]*\) parameters.*/\1/p' "$name.txt")
  active=$(sed -n 's/.* \([0-9]*\) active per token/\1/p' "$name.txt")
  flops=$("$troupe" memory "${common[@]}" "$@" --json | sed -n 's/.*"flops_per_token": *\([0-9]*\).*/\1/p')
  echo "$name: $parameters parameters, ${active:-$parameters} active per token, $flops FLOPs per token"
  "$troupe" train gpt "${common[@]}" "$@" --save "$name" >"$name.txt" 2>&1 || failed "$name.txt"
  tokens=$(sed -n 's/.*| tokens\/s: \([0-9]*\) .*/\1/p' "$name.txt" | tail -n 1)
  "$troupe" eval --load "$name" --input held_out.txt >"$name.eval" || failed "$name.eval"
  loss=$(sed -n 's/.* loss \([0-9.]*\) nats.*/\1/p' "$name.eval")
  row "$name" "$parameters" "${active:-$parameters}" "$flops" "$tokens" "$loss"
  printf -v "loss_$name" '%s' "$loss"
}
row() { printf '%-8s  %10s  %10s  %11s  %8s  %13s\n' "$@" >&2; }

row "" parameters active FLOPs/token tokens/s "held-out loss"
train dense "$@"
train experts "${experts[@]}" "$@"

# Another seed changes the loss of the dense model by 0.015. The mixture must win by twice as much.
awk -v dense="$loss_dense" -v experts="$loss_experts" 'BEGIN { exit !(experts < dense - 0.03) }' || {
  echo "14_experts.sh: the held-out loss is $loss_experts with experts and $loss_dense without: expected 0.03 less" >&2
  exit 1
}
echo "the mixture of experts has the lower loss"
