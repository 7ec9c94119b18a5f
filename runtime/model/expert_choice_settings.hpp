// Folders with the choices of a model's routers: docs/formats/expert_choices.md.

#pragma once

#include "runtime/core/setting.hpp"

#include <filesystem>

namespace troupe::runtime {

struct expert_choice_settings {
  std::filesystem::path record;  ///< written by training steps; empty: none
  std::filesystem::path replay;  ///< taken in training steps; empty: routers choose

  static constexpr auto fields() {
    using x = expert_choice_settings;
    return std::tuple(
        row("record", &x::record)
            .own_flag({.name = "--record-expert-choices",
                       .type = "DIR",
                       .help = "Writes the experts that routers choose for each token of a "
                               "training step to files in DIR, for --replay-expert-choices. "
                               "Changes no bit."}),
        row("replay", &x::replay)
            .own_flag({.name = "--replay-expert-choices",
                       .type = "DIR",
                       .help
                       = "Takes the experts of each token of a training step from files "
                         "that --record-expert-choices has written, instead of choosing "
                         "them. Weights of experts are those of this run's routers. With "
                         "files of a run, needs the same samples in the same order. With "
                         "those of `troupe generate` or `troupe eval`, finds each text by its "
                         "tokens.",
                       .resume = at_resume::told}));
  }
};

}  // namespace troupe::runtime
