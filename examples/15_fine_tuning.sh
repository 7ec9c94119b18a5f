#!/usr/bin/env bash
# Trains a small BERT on the King James Bible (a Debian package), and fine-tunes it to tell verses from verses whose
# words were mixed.
#
#   bash examples/15_fine_tuning.sh [PROGRAM [FLAG...]]      flags of `troupe train bert` for both, such as --seed 2
#
# Each verse of the labelled set appears twice, as it is and with its words in a random order. A bag of words is the
# same for both, so a classifier of it (naive Bayes, computed here) is right for one half. The BERT sees the order.
#
# Prints both accuracies to standard error: 0.877 and 0.5. Takes a few minutes on two cores.
#
# Expected output:
#   the BERT began with the parameters of pre-training and a new head
#   its accuracy is at least 0.3 above that of the bag of words
#   each verse has a vector
set -euo pipefail
top=$(cd "$(dirname "$0")/.." && pwd)
troupe=${1:-$top/build/release/bin/troupe}
shift $(($# > 0))
[[ -x $troupe ]] || troupe=$(command -v troupe) || {
  echo "15_fine_tuning.sh: no program found; build Troupe or run: bash examples/15_fine_tuning.sh PROGRAM" >&2
  exit 2
}
troupe=$(realpath "$troupe")
if ! command -v bible >/dev/null; then
  echo "15_fine_tuning.sh: no text found; run: bash examples/install_packages.sh text" >&2
  exit 2
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
quietly() {
  "$@" >log.txt 2>&1 || {
    cat log.txt >&2
    exit 1
  }
}

# --- a document for each chapter, a vocabulary of whole words and letters, the labelled set -------------

bible -f Gen1:1-Rev22:21 >verses.txt
python3 - >baseline.txt <<'END'
import collections, csv, json, math, random, re

draw = random.Random(1)
chapters, verses = collections.defaultdict(list), []
for line in open("verses.txt"):
    place, text = line.rstrip("\n").split(" ", 1)
    chapters[place.split(":")[0]].append(text)
    if 8 <= len(text.split()) <= 30:
        verses.append(text)
draw.shuffle(verses)
train, valid = verses[:4000], verses[4000:4500]
held_out = set(valid)
with open("text.jsonl", "w") as out:
    for chapter in chapters.values():
        out.write(json.dumps({"text": " ".join(v for v in chapter if v not in held_out)}) + "\n")

words = collections.Counter(w for v in verses if v not in held_out for w in re.findall(r"[a-z]+", v.lower()))
letters = "abcdefghijklmnopqrstuvwxyz"
pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *".,;:?!()'-", *letters, *("##" + x for x in letters)]
pieces += [w for w, _ in words.most_common(1500) if w not in pieces]
open("vocab.txt", "w").write("\n".join(pieces) + "\n")


def mixed(verse):
    parts = re.findall(r"[A-Za-z']+|[^\sA-Za-z']", verse)
    draw.shuffle(parts)
    return " ".join(parts)


def kept(verse):
    return " ".join(re.findall(r"[A-Za-z']+|[^\sA-Za-z']", verse))


sets = {}
for name, some in (("train", train), ("valid", valid)):
    sets[name] = [(label, text) for v in some for label, text in (("kept", kept(v)), ("mixed", mixed(v)))]
    with open(name + ".csv", "w", newline="") as out:
        csv.writer(out).writerows([("label", "text"), *sets[name]])
with open("valid.txt", "w") as out:
    out.writelines(v + "\n" for v in valid)

# Naive Bayes on the words, with one added to each count.
counts = {label: collections.Counter(w for l, t in sets["train"] if l == label for w in t.lower().split())
          for label in ("kept", "mixed")}
kinds = len(set().union(*counts.values()))
sums = {label: sum(c.values()) + kinds for label, c in counts.items()}
score = lambda label, text: sum(math.log((counts[label][w] + 1) / sums[label]) for w in text.lower().split())
right = sum(max(counts, key=lambda label: score(label, text)) == label for label, text in sets["valid"])
print(right / len(sets["valid"]))
END
quietly "$troupe" preprocess --input text.jsonl --output-prefix train --split-sentences \
  --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt

# --- pre-training, fine-tuning, vectors ---------------------------------------------------------------

common=(--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 64 --hidden-dropout 0
        --attention-dropout 0 --tokenizer-type BertWordPieceLowerCase --vocab-file vocab.txt
        --micro-batch-size 32 --global-batch-size 32 --lr-decay-style linear --lr-warmup-fraction 0.1
        --clip-grad 1.0 --weight-decay 0.01 --world-size 1 --log-interval 100)
quietly "$troupe" train bert "${common[@]}" --data-path train_text_sentence --split 100,0,0 --eval-iters 0 \
  --train-iters 1500 --lr 2e-3 --save pretrained "$@"
quietly "$troupe" train bert "${common[@]}" --task csv --task-labels kept mixed --task-train train.csv \
  --task-valid valid.csv --epochs 4 --lr 1e-3 --pretrained-checkpoint pretrained --save tuned "$@"
grep -q "with the parameters of 'pretrained/iter_" log.txt || {
  cat log.txt >&2
  exit 1
}
echo "the BERT began with the parameters of pre-training and a new head"

bert=$(sed -n 's/.*"validation_accuracy": *\([0-9.e-]*\).*/\1/p' tuned/log.jsonl | sort -g | tail -n 1)
baseline=$(cat baseline.txt)
echo "accuracy: $bert of the BERT, $baseline of the bag of words" >&2
awk -v bert="${bert:-0}" -v baseline="$baseline" 'BEGIN { exit !(bert >= baseline + 0.3) }' || {
  echo "15_fine_tuning.sh: the accuracy is $bert, and that of the bag of words $baseline: expected 0.3 more" >&2
  exit 1
}
echo "its accuracy is at least 0.3 above that of the bag of words"

quietly "$troupe" embed --load pretrained --input valid.txt --output vectors.npy
python3 - <<'END'
import json

rows = [json.loads(line) for line in open("vectors.jsonl")]
size = len(open("vectors.npy", "rb").read())
assert len(rows) == 500 and size == 128 + 500 * 64 * 4, (len(rows), size)
print("each verse has a vector")
END
