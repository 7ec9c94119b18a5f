#!/usr/bin/env python3
"""Makes the golden losses of T5: trains the models of t5_model.py with PyTorch.

  make_golden.py [CASE ...]    writes CASE.json beside this script (default: every case)

Needs torch, transformers, safetensors and megatron-core (README.md names the versions); the tests need none of it. The
step is that of ../gpt/make_golden.py. Padding is masked in the encoder, in the decoder and in cross-attention.

transformers 5 ties the output layer of a T5 of version 1.1 to its embedding. Its files have a separate one, and so has
the case: the script gives the model a parameter of its own.
"""
import sys
from pathlib import Path

import safetensors.torch
import torch

import t5_model
from t5_model import RUN

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from small_steps import load, main, make, start_megatron, train  # noqa: E402


class Hub:
    """T5ForConditionalGeneration of transformers."""

    def __init__(self, case, folder, dtype):
        import transformers
        config = transformers.T5Config(**{k: v for k, v in t5_model.CASES[case].items() if k != "architectures"})
        self.version = "transformers " + transformers.__version__
        self.model = transformers.T5ForConditionalGeneration(config)
        values = safetensors.torch.load_file(Path(folder) / "model.safetensors")
        if "lm_head.weight" in values:
            self.model.lm_head.weight = torch.nn.Parameter(torch.empty_like(self.model.shared.weight))
        missing, unexpected = self.model.load_state_dict(values, strict=False)
        copies = {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight", "lm_head.weight"}
        assert not unexpected and set(missing) <= copies - set(values), (missing, unexpected)
        self.model.to(dtype).eval()

    def logits(self, text, text_mask, tokens, mask):
        return self.model(input_ids=text, attention_mask=text_mask.long(), decoder_input_ids=tokens,
                          decoder_attention_mask=mask.long(), use_cache=False).logits


class Megatron:
    """T5Model of Megatron-core, of its own layers, with learned positions."""

    def __init__(self, case, folder, dtype):
        import megatron.core
        from megatron.core.models.T5 import t5_spec
        from megatron.core.models.T5.t5_model import T5Model
        from megatron.core.transformer.transformer_block import TransformerBlockSubmodules
        from megatron.core.transformer.transformer_config import TransformerConfig
        start_megatron()
        c = t5_model.CASES[case]
        self.version = "megatron-core " + megatron.core.__version__

        def settings(layers):
            return TransformerConfig(num_layers=layers, hidden_size=c["d_model"], num_attention_heads=c["num_heads"],
                                     kv_channels=c["d_kv"], ffn_hidden_size=c["d_ff"], hidden_dropout=0.0,
                                     attention_dropout=0.0, layernorm_epsilon=c["layer_norm_epsilon"],
                                     use_cpu_initialization=True, params_dtype=dtype, pipeline_dtype=dtype,
                                     masked_softmax_fusion=False, bias_dropout_fusion=False,
                                     bias_activation_fusion=False, gradient_accumulation_fusion=False,
                                     activation_func=lambda x: torch.nn.functional.gelu(x, approximate="tanh"))

        def stack(layer, layers):
            return TransformerBlockSubmodules([layer] * layers, layer_norm=t5_spec.LNImpl)

        self.model = T5Model(settings(c["num_decoder_layers"]), settings(c["num_layers"]),
                             stack(t5_spec.encoder_model_with_local_spec(), c["num_layers"]),
                             stack(t5_spec.decoder_model_with_local_spec(), c["num_decoder_layers"]),
                             c["vocab_size"], c["n_positions"], share_embeddings_and_output_weights=True)
        values = safetensors.torch.load_file(Path(folder) / "model.safetensors")
        values["lm_head.output_layer.bias"] = values.pop("output_layer.bias")
        load(self.model, values)
        self.model.to(dtype).eval()

    def logits(self, text, text_mask, tokens, mask):
        # Masks of Megatron are true where attention is not allowed.
        def pairs(queries, keys):
            return ~(queries[:, None, :, None] & keys[:, None, None, :])
        T = tokens.shape[1]
        causal = torch.ones(T, T, dtype=torch.bool).tril()[None, None]
        out = self.model(text, tokens, pairs(text_mask, text_mask), pairs(mask, mask) | ~causal,
                         pairs(mask, text_mask))
        return out.transpose(0, 1) if out.shape[0] == T and out.shape[1] == tokens.shape[0] else out


def padded(rows, length):
    values = torch.zeros(len(rows), length, dtype=torch.long)
    mask = torch.zeros(len(rows), length, dtype=torch.bool)
    for b, row in enumerate(rows):
        values[b, :len(row)] = torch.tensor(row)
        mask[b, :len(row)] = True
    return values, mask


def batch(samples):
    text, text_mask = padded([x["encoder"] for x in samples], RUN["encoder_sequence_length"])
    tokens, mask = padded([x["tokens"] for x in samples], RUN["sequence_length"])
    labels, _ = padded([x["labels"] for x in samples], RUN["sequence_length"])
    return (text, text_mask, tokens, mask), labels


def run_case(case, folder, dtype):
    by = (Megatron if case == "t5_megatron" else Hub)(case, folder, dtype)

    def forward(samples):
        inputs, labels = batch(samples)
        out = by.logits(*inputs)
        mask = inputs[3].to(out.dtype)
        losses = torch.nn.functional.cross_entropy(out.flatten(0, 1), labels.flatten(), reduction="none")
        return out, dict(lm_loss=((losses.view(labels.shape) * mask).sum(), mask.sum()))

    return *train(RUN, by.model, lambda i: t5_model.step_data(case, i), forward), by.version


def make_case(case):
    make("tests/golden/t5/make_golden.py", case, t5_model.CASES[case], RUN, t5_model.write_model,
         lambda folder, dtype: run_case(case, folder, dtype), lambda i: t5_model.step_data(case, i),
         (0, 1, len(t5_model.sample(case, 0)["labels"]) - 1))


if __name__ == "__main__":
    main(t5_model.CASES, make_case, sys.argv[1:])
