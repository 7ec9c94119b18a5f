#!/usr/bin/env bash
# Trains a small T5 to write texts backwards, and checks texts that it generates.
#
#   bash examples/16_reversing.sh [PROGRAM [FLAG...]]      flags of `troupe train t5`, such as --seed 2
#
# The made-up data of a T5 are random words, and the decoder's text is that of the encoder in reverse. The script draws
# 200 other texts of 10 words, and compares the generated words with the right ones.
#
# Prints the share of right words to standard error. Takes a few minutes on two cores.
#
# Expected output:
#   200 texts were generated
#   more than 95 % of their words are right
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
troupe=${1:-$top/build/release/bin/troupe}
shift $(($# > 0))
[[ -x $troupe ]] || troupe=$(command -v troupe) || {
  echo "16_reversing.sh: no program found; build Troupe or run: bash examples/16_reversing.sh PROGRAM" >&2
  exit 2
}
troupe=$(realpath "$troupe")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
quietly() {
  "$@" >log.txt 2>&1 || {
    cat log.txt >&2
    exit 1
  }
}

# A tokenizer of 125 words. The decoder's texts begin with token 0, as those of the made-up data.
mkdir words
python3 - <<'END'
import json, random

special = ["[BOS]", "[EOS]", "<extra_id_0>"]
names = special + [f"w{i}" for i in range(125)]
added = [{"id": i, "content": x, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
          "special": True} for i, x in enumerate(special)]
model = {"type": "WordLevel", "vocab": {x: i for i, x in enumerate(names)}, "unk_token": "[EOS]"}
with open("words/tokenizer.json", "w") as out:
    json.dump({"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
               "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None, "model": model},
              out)
draw = random.Random(1)
with open("prompts.txt", "w") as out:
    for _ in range(200):
        out.write(" ".join(draw.choice(names[3:]) for _ in range(10)) + "\n")
END

quietly "$troupe" train t5 --t5-form v1.0 --num-layers 2 --hidden-size 128 --num-attention-heads 4 \
  --encoder-seq-length 12 --decoder-seq-length 12 --vocab-extra-ids 0 --make-vocab-size-divisible-by 128 --mock-data \
  --tokenizer-type HuggingFaceTokenizer --tokenizer-model words --micro-batch-size 64 --global-batch-size 64 \
  --train-iters 4000 --lr 1e-3 --lr-decay-style linear --lr-warmup-iters 200 --clip-grad 1.0 --hidden-dropout 0 \
  --attention-dropout 0 --eval-iters 0 --world-size 1 --log-interval 500 --save run "$@"
"$troupe" generate --load run --prompts prompts.txt --greedy --tokens 10 --batch-size 50 >texts.jsonl 2>log.txt || {
  cat log.txt >&2
  exit 1
}
python3 - <<'END'
import json, sys

asked = [line.split() for line in open("prompts.txt")]
given = [json.loads(line)["text"].split() for line in open("texts.jsonl")]
assert len(given) == 200
print("200 texts were generated")
right = sum(x == y for text, found in zip(asked, given) for x, y in zip(reversed(text), found))
share = right / sum(map(len, asked))
print(f"{100 * share:.1f} % of the words are right", file=sys.stderr)
if share <= 0.95:
    sys.exit(f"16_reversing.sh: {100 * share:.1f} % of the words are right: expected more than 95 %")
print("more than 95 % of their words are right")
END
