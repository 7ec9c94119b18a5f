#!/usr/bin/env bash
# Trains a GPT on a text and prints samples, on one machine without a GPU.
#
#   bash examples/quickstart.sh             trains on the King James Bible (a Debian package)
#   bash examples/quickstart.sh FILE.txt    trains on your own text, a few megabytes of it
#
# Installs what is missing and builds the program. Makes a new folder for its files: runs/quickstart,
# or runs/quickstart-2 and so on where that exists. Removes nothing.
# In a checkout the folder is made there. An installed quickstart.sh uses the installed program and
# makes the folder in the working directory.
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
started=$SECONDS
say() { printf '\n\033[1m[%3d s] %s\033[0m\n' $((SECONDS - started)) "$*"; }
[[ -t 1 ]] || say() { printf '\n[%3d s] %s\n' $((SECONDS - started)) "$*"; }

if (($# > 1)) || [[ ${1:-} == -* ]]; then
  sed -n '2,10s/^# \{0,1\}//p' "$0"
  [[ ${1:-} == -h || ${1:-} == --help ]] && exit 0 || exit 2
fi
if (($# == 1)) && [[ ! -s $1 ]]; then
  echo "quickstart.sh: '$1' is not a file with text in it" >&2
  exit 2
fi
text=${1:-}
[[ -z $text || $text == /* ]] || text=$PWD/$text  # the working directory changes below
[[ ! -e $top/CMakeLists.txt ]] || cd "$top"

say "packages and program"
[[ $text ]] || bash "$top/examples/install_packages.sh" text
if [[ -e $top/CMakeLists.txt ]]; then
  bash examples/install_packages.sh build
  cmake --preset release -DTROUPE_TESTS=OFF >/dev/null
  cmake --build --preset release --target troupe | tail -n 1
  troupe=build/release/bin/troupe
else
  troupe=$(command -v troupe || echo "$top/../../../bin/troupe")
fi
"$troupe" --version

say "text"
mkdir -p runs
run=runs/quickstart
for ((n = 2; ; n++)); do
  ! mkdir "$run" 2>/dev/null || break
  if [[ ! -e $run && ! -L $run ]]; then
    echo "quickstart.sh: cannot make the folder '$PWD/$run'" >&2
    exit 2
  fi
  run=runs/quickstart-$n
done
[[ $run == runs/quickstart ]] || echo "runs/quickstart exists; this run uses $run"
if [[ $text ]]; then
  cp "$text" "$run/text.txt"
else
  # A verse a line, without its number; an empty line between chapters.
  bible -f Gen1:1-Rev22:21 |
    awk '{ split($1, at, ":"); if (NR > 1 && at[1] != chapter) print ""; chapter = at[1];
           sub(/^[^ ]+ /, ""); print }' >"$run/text.txt"
fi
# Documents of about 4 kB, cut at line ends; every twentieth is held out and never trained on.
awk -v train="$run/train.txt" -v held_out="$run/held_out.txt" '
  { document = document $0 "\n" }
  length(document) > 4000 { hand_in() }
  END { if (document != "") hand_in() }
  function hand_in() {
    gsub(/\n\n+/, "\n", document)
    printf "%s\n", document > (++n % 20 == 0 ? held_out : train)
    document = ""
  }' "$run/text.txt"
if [[ ! -s $run/held_out.txt ]]; then
  echo "quickstart.sh: the text is too short: at least 100 kB are needed" >&2
  exit 2
fi
ls -l "$run"/train.txt "$run"/held_out.txt | awk '{ print $5 " bytes  " $9 }'

say "tokenizer: byte-level BPE"
"$troupe" tokenizer train --input "$run/train.txt" --vocab-size 2048 --output "$run/tokenizer"
tokenizer=(--tokenizer-type GPT2BPETokenizer --vocab-file "$run/tokenizer/vocab.json"
           --merge-file "$run/tokenizer/merges.txt")

say "data set"
"$troupe" preprocess --input "$run/train.txt" --output-prefix "$run/train" "${tokenizer[@]}" \
  --append-eod

train() {
  "$troupe" train gpt \
    --num-layers 4 --hidden-size 192 --num-attention-heads 6 --seq-length 128 \
    --max-position-embeddings 128 --position-embedding-type rope --normalization RMSNorm \
    --swiglu --ffn-hidden-size 512 --disable-bias-linear \
    --attention-dropout 0 --hidden-dropout 0 \
    --micro-batch-size 4 --global-batch-size 16 --train-iters 500 \
    --lr 3e-3 --min-lr 3e-4 --lr-decay-style cosine --lr-warmup-iters 50 --adam-beta2 0.95 \
    --weight-decay 0.1 --clip-grad 1.0 --init-method-std 0.03 \
    --world-size 4 --pipeline-model-parallel-size 2 \
    --data-path "$run/train_text_document" --split 98,2,0 "${tokenizer[@]}" \
    --log-interval 50 --eval-interval 125 --eval-iters 5 \
    --save "$run/checkpoints" --load "$run/checkpoints" --save-interval 250 "$@"
}
say "training: 2 pipeline stages x 2 data-parallel replicas, stopped after 250 iterations"
train --exit-interval 250
say "the same command again: it resumes where it was stopped"
train

say "the loss curve"
"$troupe" plot "$run/checkpoints" --output "$run/loss.svg"

say "held-out text: bits per byte, beside a trigram model of bytes"
"$troupe" eval --load "$run/checkpoints" --input "$run/held_out.txt" \
  --trigram-from "$run/train.txt"

say "text sampled from the model"
"$troupe" generate --load "$run/checkpoints" --prompt "In the beginning" --tokens 100 \
  --temperature 0.8 --top-k 50 --seed 1

say "done. The loss curve is $run/loss.svg; continue with $top/docs/guides/next_steps.md"
