#include "actors/command/settings/settings.hpp"

namespace troupe::command::settings {

void declare_rate(command_line& line, training_flags& to) {
  using runtime::decay_style;
  using runtime::wsd_style;
  auto& r = to.job.training.rate;
  auto& asked = to.rate;
  line.group("Learning rate: counted in steps (-iters) with --train-iters, else in samples");
  line.value({.name = "--lr",
              .field = "rate.maximum",
              .type = "X",
              .help = "Peak learning rate (required).",
              .megatron = "",
              .resume = at_resume::scheduler},
             if_given(real(r.maximum, 0)));
  line.value({.name = "--min-lr",
              .field = "rate.minimum",
              .type = "X",
              .help = "Final learning rate, after the decay.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(r.minimum, 0));
  line.value({.name = "--lr-decay-style",
              .field = "rate.style",
              .type = "STYLE",
              .help = "Shape of the decay after the warm-up. WSD: constant until the last part, "
                      "see --lr-wsd-decay-iters.",
              .megatron = "",
              .resume = at_resume::scheduler},
             one_of(r.style,
                    {decay_style::constant,
                     decay_style::linear,
                     decay_style::cosine,
                     decay_style::inverse_square_root,
                     decay_style::wsd}));
  line.value(
      {.name = "--lr-wsd-decay-style",
       .field = "rate.wsd_style",
       .type = "STYLE",
       .help = "With --lr-decay-style WSD: shape of the decay at the end.",
       .megatron = "",
       .resume = at_resume::scheduler},
      one_of(
          r.end_style,
          {wsd_style::exponential, wsd_style::linear, wsd_style::cosine, wsd_style::minus_sqrt}));
  line.value({.name = "--lr-wsd-decay-iters",
              .field = "rate.wsd_decay_iterations",
              .type = "N",
              .unit = "steps",
              .help = "With --lr-decay-style WSD: number of last steps in which the rate falls.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(asked.wsd_iterations, 1, largest_count));
  line.value({.name = "--lr-wsd-decay-samples",
              .field = "rate.wsd_decay",
              .type = "N",
              .unit = "samples",
              .help = "As --lr-wsd-decay-iters, in samples.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(asked.wsd_samples, 1, largest_count));
  line.value({.name = "--lr-decay-iters",
              .field = "rate.decay_iterations",
              .type = "N",
              .unit = "steps",
              .default_value = "the whole run",
              .help = "Steps until the rate has decayed to --min-lr.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(asked.decay_iterations, 1, largest_count));
  line.value({.name = "--lr-decay-samples",
              .field = "rate.decay",
              .type = "N",
              .unit = "samples",
              .help = "As --lr-decay-iters, in samples.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(asked.decay_samples, 1, largest_count));
  line.value({.name = "--lr-warmup-iters",
              .field = "rate.warmup_iterations",
              .type = "N",
              .unit = "steps",
              .default_value = "0",
              .help = "Steps of linear warm-up.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(asked.warmup_iterations, 0, largest_count));
  line.value({.name = "--lr-warmup-samples",
              .field = "rate.warmup",
              .type = "N",
              .unit = "samples",
              .help = "As --lr-warmup-iters, in samples.",
              .megatron = "",
              .resume = at_resume::scheduler},
             whole(asked.warmup_samples, 0, largest_count));
  line.value({.name = "--lr-warmup-fraction",
              .field = "rate.warmup_fraction",
              .type = "X",
              .help = "Length of the warm-up as a fraction of the decay.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(asked.warmup_fraction, 0, 1));
  line.value({.name = "--lr-warmup-init",
              .field = "rate.warmup_start",
              .type = "X",
              .help = "Learning rate at the start of the warm-up.",
              .megatron = "",
              .resume = at_resume::scheduler},
             real(r.warmup_start, 0));
  line.value({.name = "--decoupled-lr",
              .field = "rate.decoupled_maximum",
              .type = "X",
              .default_value = "--lr",
              .help = "Peak learning rate of the word embedding and the output layer.",
              .megatron = "",
              .resume = at_resume::scheduler},
             if_given(real(r.decoupled_maximum, real_range{.least = 0, .above = true})));
  line.value({.name = "--decoupled-min-lr",
              .field = "rate.decoupled_minimum",
              .type = "X",
              .default_value = "--min-lr",
              .help = "With --decoupled-lr: final learning rate of these two.",
              .megatron = "",
              .resume = at_resume::scheduler},
             if_given(real(r.decoupled_minimum, 0)));
}

}  // namespace troupe::command::settings
