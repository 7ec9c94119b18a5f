#include "actors/command/settings/settings.hpp"
#include "runtime/family/gpt/gpt_asked.hpp"

namespace troupe::command::settings {

void declare_shape(command_line& line, training_flags& to) {
  auto& asked = std::any_cast<runtime::gpt_asked&>(to.model);
  auto& m = asked.config;
  line.group("Model: its shape");
  line.value({.name = "--num-layers",
              .field = "model.layers",
              .type = "N",
              .unit = "layers",
              .help = "Transformer layers. Required, as are the next two and --seq-length, unless "
                      "--load-hf gives them.",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(whole(m.layers, 1, 10000)));
  line.value({.name = "--hidden-size",
              .field = "model.hidden",
              .type = "N",
              .unit = "channels",
              .help = "Channels of the residual stream (C).",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(whole(m.hidden, 1)));
  line.value({.name = "--num-attention-heads",
              .field = "model.heads",
              .type = "N",
              .unit = "heads",
              .help = "Query heads (H).",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(whole(m.heads, 1)));
  line.value({.name = "--ffn-hidden-size",
              .field = "model.ffn",
              .type = "N",
              .unit = "channels",
              .default_value = "4 C; with --swiglu 8/3 C, rounded down to a multiple of 64",
              .help = "Width of the feed-forward layer.",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(whole(m.ffn, 1)));
  line.value({.name = "--kv-channels",
              .field = "model.head_size",
              .type = "N",
              .unit = "channels",
              .default_value = "C / H",
              .help = "Size of a head (D).",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(whole(m.head_size, 1)));
  line.toggle(
      {.name = "--group-query-attention",
       .field = "model.grouped_queries",
       .help = "Lets several query heads share one key and value head; see --num-query-groups.",
       .megatron = "",
       .resume = at_resume::refused},
      [&asked] { asked.grouped_queries = true; });
  line.value({.name = "--num-query-groups",
              .field = "model.groups",
              .type = "N",
              .unit = "heads",
              .default_value = "1",
              .help = "Key and value heads (G), with --group-query-attention.",
              .megatron = "refused without --group-query-attention, not ignored",
              .resume = at_resume::refused},
             if_given(whole(m.groups, 1)));
  line.value({.name = "--seq-length",
              .field = "model.sequence",
              .type = "N",
              .unit = "tokens",
              .help = "Tokens per sample (T).",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(whole(m.sequence, 1)));
  line.value({.name = "--max-position-embeddings",
              .field = "model.positions",
              .type = "N",
              .unit = "positions",
              .default_value = "--seq-length",
              .help = "Rows of the learned position table.",
              .megatron = "optional: the default is --seq-length",
              .resume = at_resume::refused},
             if_given(whole(m.positions, 1)));
  line.value({.name = "--make-vocab-size-divisible-by",
              .field = "model.vocabulary_divisor",
              .type = "N",
              .help = "Pads the embedding with zero rows to a multiple of N, for faster matrix "
                      "products. The rows do not change results.",
              .megatron = "",
              .resume = at_resume::told},
             whole(to.vocabulary_divisor, 1));
  line.value({.name = "--load-hf",
              .field = "checkpoints.load_hub",
              .type = "DIR",
              .help = "Starts from a Hugging Face folder (config.json, model.safetensors) with a "
                      "GPT-2, Llama, Mistral, Qwen 2 or Qwen 3 model, or downloads one of the Hub: "
                      "ORG/NAME or ORG/NAME@REVISION. Shape and tokenizer come "
                      "from there. Flags of this section or the next may repeat the shape, not "
                      "change it; dropout and tokenizer may be changed."},
             text(to.job.checkpoints.load_hub));
}

}  // namespace troupe::command::settings
