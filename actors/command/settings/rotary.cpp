#include "actors/command/settings/settings.hpp"
#include "runtime/family/gpt/gpt_asked.hpp"

namespace troupe::command::settings {

void declare_rotary(command_line& line, training_flags& to) {
  auto& asked = std::any_cast<runtime::gpt_asked&>(to.model);
  auto& m = asked.config;
  line.group("Model: rotary positions");
  line.value({.name = "--rotary-base",
              .field = "model.rotary_base",
              .type = "X",
              .default_value = "10000",
              .help = "Base of the rotary wavelengths.",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(real(m.rotary_base, {.least = 0, .above = true})));
  line.value({.name = "--rotary-percent",
              .field = "model.rotary_percent",
              .type = "X",
              .default_value = "1",
              .help = "Fraction of a head's channels that are rotated.",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(real(m.rotary_percent, {.least = 0, .most = 1, .above = true})));
  line.toggle({.name = "--rotary-interleaved",
               .field = "model.rotary_interleaved",
               .help = "Rotates adjacent channels as pairs, instead of the two halves of a head.",
               .megatron = "",
               .resume = at_resume::refused},
              [&m] { m.rotary_interleaved = true; });
  line.value({.name = "--rotary-seq-len-interpolation-factor",
              .field = "model.rotary_interpolation",
              .type = "N",
              .default_value = "1",
              .help = "Divisor of positions.",
              .megatron = "",
              .resume = at_resume::refused},
             if_given(whole(m.rotary_interpolation, 1)));
  line.toggle(
      {.name = "--use-rope-scaling",
       .field = "model.scaling=llama3",
       .help = "Stretches long wavelengths as Llama 3 does, beyond its original 8192 tokens.",
       .megatron = "",
       .resume = at_resume::refused},
      [&m] { m.scaling = runtime::rope_scaling::llama3; });
  line.value({.name = "--rope-scaling-factor",
              .field = "model.scaling_factor",
              .type = "X",
              .default_value = "8",
              .help = "Stretch factor, with --use-rope-scaling.",
              .megatron = "refused without --use-rope-scaling, not ignored",
              .resume = at_resume::refused},
             real(asked.llama3_factor, 1));
  line.value({.name = "--rotary-scaling-factor",
              .field = "model.yarn_factor",
              .type = "X",
              .default_value = "1",
              .help = "Stretch factor of YaRN, with --position-embedding-type yarn.",
              .megatron = "with --position-embedding-type yarn, for any GPT",
              .resume = at_resume::refused},
             real(asked.yarn_factor, 1));
  line.value({.name = "--yarn-original-max-position-embeddings",
              .field = "model.scaling_positions",
              .type = "N",
              .unit = "tokens",
              .default_value = "4096",
              .help = "YaRN: sequence length before the extension.",
              .megatron = "with --position-embedding-type yarn, for any GPT",
              .resume = at_resume::refused},
             if_given(whole(m.scaling_positions, 1)));
  line.value({.name = "--yarn-beta-fast",
              .field = "model.yarn_fast",
              .type = "X",
              .default_value = "32",
              .help = "YaRN: wavelengths with more rotations than this within the original length "
                      "stay as they are.",
              .megatron = "with --position-embedding-type yarn, for any GPT",
              .resume = at_resume::refused},
             if_given(real(m.yarn_fast, 0)));
  line.value({.name = "--yarn-beta-slow",
              .field = "model.yarn_slow",
              .type = "X",
              .default_value = "1",
              .help = "YaRN: wavelengths with fewer rotations than this are fully interpolated.",
              .megatron = "with --position-embedding-type yarn, for any GPT",
              .resume = at_resume::refused},
             if_given(real(m.yarn_slow, real_range{.least = 0, .above = true})));
  line.toggle({.name = "--yarn-correction-range-round-to-int",
               .field = "model.yarn_round",
               .default_value = "on",
               .help = "YaRN: rounds the two bounds to whole channels.",
               .megatron = "with --position-embedding-type yarn, for any GPT",
               .resume = at_resume::refused},
              [&m] { m.yarn_round = true; });
  line.toggle({.name = "--no-yarn-correction-range-round-to-int",
               .field = "model.yarn_round=false",
               .help = "YaRN: does not round the two bounds.",
               .megatron = "with --position-embedding-type yarn, for any GPT",
               .resume = at_resume::refused},
              [&m] { m.yarn_round = false; });
  line.value({.name = "--mscale",
              .field = "model.yarn_mscale",
              .type = "X",
              .default_value = "1",
              .help = "YaRN: multiplies cosine and sine by 0.1 X ln(factor) + 1.",
              .megatron = "with --position-embedding-type yarn, for any GPT",
              .resume = at_resume::refused},
             if_given(real(m.yarn_mscale, 0)));
  line.value({.name = "--mscale-all-dim",
              .field = "model.yarn_mscale_all",
              .type = "X",
              .default_value = "0",
              .help = "YaRN: divides cosine and sine by 0.1 X ln(factor) + 1.",
              .megatron = "with --position-embedding-type yarn, for any GPT",
              .resume = at_resume::refused},
             if_given(real(m.yarn_mscale_all, 0)));
}

}  // namespace troupe::command::settings
