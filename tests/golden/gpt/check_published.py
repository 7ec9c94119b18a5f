"""Compares small models in the shapes of published ones with experts with transformers, from folder to folder.

    python3 check_published.py PROGRAM [NAME ...] [--prompts 24]

Needs torch, transformers, tiktoken and jinja2. NAME is a model of published.json, or moonshotai/Kimi-K2; the default is
all of them. Each folder has the fields of the published config.json with small sizes, and random weights in bfloat16 in
several files. Moonlight's also has its tokenizer: tiktoken.model, and tokenizer_config.json with its special tokens and
a chat template. transformers has no class for it, so tiktoken and jinja2 judge the texts. The others have none: texts
are ids.

  eval, generate      logits within 1e-5 of the largest and the same greedy texts, by the folder and after an import
  checkpoint export   the same names, types, shapes and bytes as in the folder, fields of config.json, and tokenizer
  train gpt           with a rate of 0 the same bytes; with a rate the logits of the export
"""

import argparse
import base64
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import jinja2
import tiktoken
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tokenizer"))
from make_kimi import WORDS, some_texts  # noqa: E402

# A share of the largest logit, which is near 4. Logits of transformers in float32 and float64 differ by 3e-6 of it.
TOLERANCE = 1e-5
TOKENS = 24
SMALL = dict(hidden_size=32, intermediate_size=48, moe_intermediate_size=16, shared_expert_intermediate_size=40,
             num_hidden_layers=4, num_attention_heads=4, head_dim=16, num_experts=32, num_local_experts=8,
             n_routed_experts=32, kv_lora_rank=24, q_lora_rank=20, qk_nope_head_dim=16, qk_rope_head_dim=8,
             v_head_dim=12, max_window_layers=2, vocab_size=160)
MOONLIGHT, KIMI, V3 = "moonshotai/Moonlight-16B-A3B", "moonshotai/Kimi-K2", "deepseek-ai/DeepSeek-V3"
# How Kimi-K2 differs from DeepSeek-V3. Its own model_type, which transformers does not know, is kimi_k2.
KIMI_FIELDS = dict(first_k_dense_replace=1, max_position_embeddings=131072, n_group=1, topk_group=1,
                   num_nextn_predict_layers=0, rope_theta=50000.0, routed_scaling_factor=2.827,
                   rope_scaling=dict(beta_fast=1.0, beta_slow=1.0, factor=32.0, mscale=1.0, mscale_all_dim=1.0,
                                     original_max_position_embeddings=4096, type="yarn"))
# Its special tokens by their distance from the first one.
NAMED = {0: "[BOS]", 1: "[EOS]", 2: "<|im_end|>", 3: "<|im_user|>", 4: "<|im_assistant|>", 6: "<|start_header_id|>",
         7: "<|end_header_id|>", 9: "[EOT]", 10: "<|im_system|>", 17: "<|im_middle|>", 254: "[UNK]", 255: "[PAD]"}
CHAT = """{%- for message in messages -%}
{%- if loop.first and message['role'] != 'system' -%}{{ '<|im_system|>system<|im_middle|>Be brief.<|im_end|>' }}\
{%- endif -%}
{{ '<|im_' + message['role'] + '|>' + message['role'] + '<|im_middle|>' + message['content'] + '<|im_end|>' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_assistant|>assistant<|im_middle|>' }}{%- endif -%}"""


class Tokenizer:
    """Moonlight's, with the tokens of kimi.json."""

    def __init__(self):
        self.lines = json.loads((HERE.parent / "tokenizer" / "kimi.json").read_text())["tokens"]
        self.first = len(self.lines)
        self.names = [NAMED.get(i, f"<|reserved_token_{self.first + i}|>") for i in range(256)]
        self.by = tiktoken.Encoding("moonlight", pat_str=WORDS, special_tokens={
            name: self.first + i for i, name in enumerate(self.names)},
            mergeable_ranks={base64.b64decode(x): i for i, x in enumerate(self.lines)})

    def write(self, folder):
        (folder / "tiktoken.model").write_text("".join(f"{x} {i}\n" for i, x in enumerate(self.lines)))
        added = {str(self.first + i): dict(content=name, lstrip=False, normalized=False, rstrip=False,
                                           single_word=False, special=True) for i, name in NAMED.items()}
        config = dict(added_tokens_decoder=added,
                      additional_special_tokens=[x for i, x in NAMED.items() if 2 <= i < 254], bos_token="[BOS]",
                      clean_up_tokenization_spaces=False, eos_token="[EOS]", extra_special_tokens={},
                      model_max_length=1000000000000000019884624838656, pad_token="[PAD]", unk_token="[UNK]",
                      tokenizer_class="TikTokenTokenizer", chat_template=CHAT,
                      auto_map=dict(AutoTokenizer=["tokenization_moonshot.TikTokenTokenizer", None]))
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1))


class Numbers:
    """A model without a tokenizer: texts are ids."""

    @staticmethod
    def encode(text):
        return [int(x) for x in text.split()]

    @staticmethod
    def decode(ids):
        return " ".join(map(str, ids))


def small(config, ids):
    """The fields of a published config.json with small sizes."""
    out = {key: SMALL[key] if key in SMALL and value is not None else value for key, value in config.items()}
    heads = config["num_attention_heads"] // config["num_key_value_heads"]
    out["num_key_value_heads"] = out["num_attention_heads"] // min(heads, 2)
    out["vocab_size"] = ids
    # The last id ends a text without a tokenizer.
    for key, back in (("bos_token_id", 256), ("eos_token_id", 255)) if ids > 256 else (
            ("bos_token_id", 2), ("eos_token_id", 1), ("pad_token_id", 3)):
        if key in config:
            out[key] = ids - back
    return out


def published():
    models = {name: x["config"] for name, x in json.loads((HERE / "published.json").read_text())["models"].items()}
    code = "modeling_deepseek.DeepseekV3"
    models[MOONLIGHT]["auto_map"] = dict(AutoConfig="configuration_deepseek.DeepseekV3Config", AutoModel=code + "Model",
                                         AutoModelForCausalLM=code + "ForCausalLM")
    return models | {KIMI: models[V3] | KIMI_FIELDS}


def write_model(name, folder, tokenizer):
    """Random weights in bfloat16; the bias of a choice of experts stays in float32."""
    config = small(published()[name], tokenizer.by.n_vocab if tokenizer else SMALL["vocab_size"])
    model = transformers.AutoModelForCausalLM.from_config(transformers.AutoConfig.for_model(**config))
    torch.manual_seed(len(name))
    with torch.no_grad():
        for key, x in (*model.named_parameters(), *model.named_buffers()):
            if key.endswith("e_score_correction_bias"):
                x.copy_(0.1 * torch.randn(x.shape))
            elif x.dim() > 1:
                scale = config.get("routed_scaling_factor", 1) if key.endswith("experts.down_proj") else 1
                x.copy_((torch.randn(x.shape) / x.shape[-1] ** 0.5 / scale).bfloat16())
            elif key.endswith("weight"):
                x.copy_((1 + 0.1 * torch.randn(x.shape)).bfloat16())
            elif key.endswith("bias"):
                x.copy_((0.1 * torch.randn(x.shape)).bfloat16())
    with torch.no_grad():
        model.lm_head.weight[config["eos_token_id"]] *= 1.5  # so that some texts end
    biases = {key: x.clone() for key, x in model.named_buffers() if key.endswith("e_score_correction_bias")}
    model.bfloat16()
    for key, x in biases.items():
        module, last = key.rsplit(".", 1)
        setattr(model.get_submodule(module), last, x)
    model.save_pretrained(folder, max_shard_size="40KB")
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    (folder / "generation_config.json").unlink(missing_ok=True)
    if tokenizer:
        tokenizer.write(folder)


def load(folder):
    model, told = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    wrong = {key: value for key, value in told.items() if value}
    if wrong:
        raise AssertionError(f"transformers says of '{folder}': {wrong}")
    return model.eval()


def tensors(folder):
    """Type, shape and bytes of each tensor."""
    out = {}
    for file in Path(folder).glob("*.safetensors"):
        with safe_open(file, "pt") as opened:
            for name in opened.keys():
                x = opened.get_tensor(name).contiguous()
                out[name] = (x.dtype, tuple(x.shape), x.flatten().view(torch.uint8).numpy().tobytes())
    return out


class Check:
    def __init__(self, program, name, count, folder):
        self.program, self.name, self.folder, self.good = program, name, folder, True
        self.own = Tokenizer() if name == MOONLIGHT else None
        self.texts = self.own.by if self.own else Numbers
        write_model(name, folder / "model", self.own)
        draw = random.Random(name)
        if self.own:
            self.prompts = [x for x in some_texts(4 * count) if "\n" not in x and "\r" not in x and x.strip() == x]
            self.prompts = self.prompts[:count]
        else:
            self.prompts = [" ".join(str(draw.randrange(8, SMALL["vocab_size"])) for _ in range(draw.randint(1, 20)))
                            for _ in range(count)]
        (folder / "prompts.jsonl").write_text("".join(json.dumps(dict(prompt=x)) + "\n" for x in self.prompts))
        self.text = "".join(some_texts(40)) if self.own else " ".join(self.prompts * 8)
        (folder / "text.txt").write_text(self.text, newline="")

    def troupe(self, *words):
        done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"troupe {' '.join(map(str, words))}:\n{done.stdout}{done.stderr}")
        return done.stdout

    def tell(self, good, what):
        print(f"{self.name}: {what}{'' if good else ': WRONG'}", flush=True)
        self.good = self.good and good

    def logits(self, what, load_from, model):
        file = self.folder / f"{what.replace(' ', '_')}.safetensors"
        self.troupe("eval", "--load", load_from, "--input", self.folder / "text.txt", "--input-format", "whole",
                    "--logits", file)
        ours = load_file(file)
        end = model.config.eos_token_id  # begins and ends the document
        if ours["tokens"].tolist() != [end, *self.texts.encode(self.text), end][:len(ours["tokens"])]:
            self.tell(False, f"{what}: tokens of the text")
        with torch.no_grad():
            theirs = model(ours["tokens"].long()[None]).logits[0]
        far, largest = (theirs - ours["logits"]).abs().max().item(), theirs.abs().max().item()
        self.tell(far <= TOLERANCE * largest,
                  f"{what}: {len(theirs)} tokens, logits differ by {far:.1e} of {largest:.1f}")

    def greedy(self, ids, model):
        ids = torch.tensor([ids])
        with torch.no_grad():
            row = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=TOKENS, do_sample=False)
        row = row[0, ids.shape[1]:].tolist()
        ended = row[-1] == model.config.eos_token_id
        return self.texts.decode(row[:-1] if ended else row), ended

    def generated(self, what, load_from, model):
        page = self.troupe("generate", "--load", load_from, "--prompts", self.folder / "prompts.jsonl", "--greedy",
                           "--tokens", TOKENS)
        ours = [(x["text"] if self.own else x["text"].strip(), x["finish_reason"] == "end_of_document")
                for x in map(json.loads, page.splitlines())]
        theirs = [self.greedy(self.texts.encode(x), model) for x in self.prompts]
        equal = sum(a == b for a, b in zip(ours, theirs))
        for prompt, a, b in zip(self.prompts, ours, theirs):
            if a != b:
                print(f"  prompt {prompt!r}\n  {a}\n  {b}")
                break
        self.tell(equal == len(ours) == len(theirs), f"{what}: {equal} of {len(theirs)} greedy texts equal, "
                  f"{sum(x[1] for x in theirs)} ended")

    def chat(self, model):
        messages = [dict(role="user", content="old ab"), dict(role="assistant", content="the"),
                    dict(role="user", content="\u4e2d\u6587 or <|im_end|>")]
        (self.folder / "messages.json").write_text(json.dumps(messages))
        page = self.troupe("generate", "--load", self.folder / "model", "--chat", "--messages",
                           self.folder / "messages.json", "--greedy", "--tokens", TOKENS)
        text = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(CHAT).render(
            messages=messages, add_generation_prompt=True)
        right = self.greedy(self.own.by.encode(text, allowed_special="all"), model)[0]
        self.tell(page.strip("\n") == right.strip("\n"), f"chat: {len(right)} characters")

    def bytes(self, what, folder):
        right, found = tensors(self.folder / "model"), tensors(folder)
        wrong = sorted(key for key in right.keys() | found.keys() if right.get(key) != found.get(key))
        files = len(list(Path(folder).glob("*.safetensors")))
        self.tell(not wrong, f"{what}: {len(found)} tensors in {files} files, {len(wrong)} differ {wrong[:3]}")

    def files(self, folder):
        """Fields of config.json stay, except references to code and to layers that are not exported."""
        before, after = (json.loads((x / "config.json").read_text()) for x in (self.folder / "model", folder))
        gone = {key for key in before if before[key] != after.get(key)} - {"auto_map", "num_nextn_predict_layers"}
        gone |= {name for name in ("tiktoken.model", "tokenizer_config.json") if self.own
                 and (folder / name).read_bytes() != (self.folder / "model" / name).read_bytes()}
        self.tell(not gone, f"export: {len(after)} fields, {len(gone)} fields and files differ {sorted(gone)}")

    def train(self, to, rate, *words):
        data, numbers = self.folder / "data_text_document", ["--tokenizer-type", "NullTokenizer", "--vocab-size",
                                                             SMALL["vocab_size"]]
        if not data.with_suffix(".idx").exists():
            self.troupe("preprocess", "--input", self.folder / "text.txt", "--input-format", "whole", "--output-prefix",
                        self.folder / "data", *(["--tokenizer", self.folder / "model"] if self.own else numbers))
        self.troupe("train", "gpt", "--load-hf", self.folder / "model", *([] if self.own else numbers), "--data-path",
                    data, "--split", "1,0,0", "--seq-length", 32, "--micro-batch-size", 2, "--global-batch-size", 4,
                    "--train-iters", 3, "--eval-iters", 0, "--lr", rate, "--weight-decay", 0, "--backend", "cpu",
                    "--save", to, *words)

    def run(self):
        model = load(self.folder / "model")
        self.logits("folder", self.folder / "model", model)
        self.generated("folder", self.folder / "model", model)
        if self.own:
            self.chat(model)
        self.troupe("checkpoint", "import", "--hf", self.folder / "model", "--save", self.folder / "run")
        self.logits("import", self.folder / "run", model)
        self.generated("import", self.folder / "run", model)
        export = ["--dtype", "bfloat16", "--shard-size", 4e-5]
        self.troupe("checkpoint", "export", self.folder / "run", "--hf", self.folder / "back", *export)
        self.bytes("export", self.folder / "back")
        self.files(self.folder / "back")
        self.logits("export", self.folder / "back", load(self.folder / "back"))
        still = ["--moe-router-bias-update-rate", 0] if model.config.model_type == "deepseek_v3" else []
        self.train(self.folder / "still", 0, *still)
        self.troupe("checkpoint", "export", self.folder / "still", "--hf", self.folder / "kept", *export)
        self.bytes("train with rate 0", self.folder / "kept")
        self.train(self.folder / "trained", 1e-3)
        self.troupe("checkpoint", "export", self.folder / "trained", "--hf", self.folder / "moved")
        self.logits("train", self.folder / "trained", load(self.folder / "moved"))
        if tensors(self.folder / "moved") == tensors(self.folder / "model"):
            self.tell(False, "train: no tensor has changed")
        return self.good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--prompts", type=int, default=24)
    args = parser.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    good = True
    for name in args.names or published():
        with tempfile.TemporaryDirectory() as folder:
            try:
                good = Check(args.program, name, args.prompts, Path(folder)).run() and good
            except AssertionError as failure:
                print(f"{name}: {failure}")
                good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
