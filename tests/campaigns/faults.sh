#!/usr/bin/env bash
# Strikes a small job over real processes, in several layouts, with faults of all kinds and roles.
#
#   bash tests/campaigns/faults.sh PROGRAM [FAULTS [SEED...]]    12 faults for each layout and seed, seed 1
#
# Fails when a run ends without its result, or with other losses, digests or checkpoints than the undisturbed run.
set -euo pipefail
case ${1:-} in
  -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
  '') echo "faults.sh: PROGRAM is missing (see --help)" >&2; exit 2 ;;
esac
program=$(realpath "$1")
faults=${2:-12}
seeds=("${@:3}")
job=(--mock-data --num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 32
     --max-position-embeddings 32 --micro-batch-size 2 --global-batch-size 8 --lr 1e-3 --vocab-size 128
     --tokenizer-type NullTokenizer --threads-per-worker 1 --eval-iters 0 --train-iters 120)
experts="--num-experts 4 --moe-ffn-hidden-size 64 --disable-bias-linear --moe-router-score-function sigmoid \
--moe-router-enable-expert-bias"
layouts=("gpt --world-size 2 --processes 2 --pipeline-model-parallel-size 2"
         "gpt --world-size 2 --processes 2 --tensor-model-parallel-size 2 --sequence-parallel"
         "gpt --world-size 2 --processes 2 --use-distributed-optimizer"
         "gpt --world-size 4 --processes 4 --pipeline-model-parallel-size 2 --bf16"
         "gpt --world-size 4 --processes 2 --pipeline-model-parallel-size 2 --fp16"
         # The two processes share the experts; the tensor ranks of each share the matrices of an expert.
         "gpt --world-size 4 --processes 2 --tensor-model-parallel-size 2 --sequence-parallel $experts \
--expert-model-parallel-size 2 --expert-tensor-parallel-size 2"
         # Both processes have stages of each copy of the model.
         "gpt --world-size 4 --processes 2 --pipeline-model-parallel-size 2 --pipeline-schedule dualpipe $experts --expert-model-parallel-size 2 --use-distributed-optimizer --micro-batch-size 1"
         "bert --world-size 2 --processes 2 --tensor-model-parallel-size 2 --sequence-parallel"
         "bert --world-size 4 --processes 4 --pipeline-model-parallel-size 2 --use-distributed-optimizer --bf16"
         # The second stage begins inside the encoder, then inside the decoder.
         "t5 --decoder-seq-length 16 --world-size 4 --processes 4 --pipeline-model-parallel-size 2 \
--pipeline-model-parallel-layout Eee|eenDttttL"
         "t5 --decoder-seq-length 16 --world-size 4 --processes 2 --pipeline-model-parallel-size 2 --fp16 \
--pipeline-model-parallel-layout EeeeenDtt|ttL")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
failed=0
for seed in "${seeds[@]:-1}"; do
  for layout in "${layouts[@]}"; do
    printf 'seed %s: %s\n' "$seed" "$layout"
    # shellcheck disable=SC2086  # a layout is several words; the first one is the family
    timeout 1800 "$program" chaos --kills "$faults" --every-steps 20 --seed "$seed" --roles all -- \
      train "${layout%% *}" "${job[@]}" ${layout#* } >log 2>&1 || { failed=1; tail -n 40 log; }
    tail -n 3 log
  done
done
exit $failed
