#include "actors/command/commands.hpp"
#include "actors/command/dry_run.hpp"
#include "actors/command/flag_table.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/run_training.hpp"

#include <cstdio>
#include <memory>

namespace troupe::command {

void add_train(command_line& program) {
  auto& train = program.command("train", "trains a model.");
  auto& gpt = train.command(
      "gpt", "trains a GPT by Megatron-LM's own flags, and resumes where it was stopped.");
  const auto flags = std::make_shared<training_flags>();
  const auto tables = std::make_shared<bool>(false);
  gpt.toggle("--help-megatron",
             "Prints the flags of Megatron-LM that are accepted or refused here, and why.",
             [tables] { *tables = true; });
  declare(gpt, *flags);
  gpt.runs([flags, tables, &gpt] {
    if (*tables) {
      std::fputs(megatron_help().c_str(), stdout);
      return 0;
    }
    const auto job = resolve(*flags, gpt.given());
    if (flags->dry_run) {
      std::fputs(describe(job).c_str(), stdout);
      return 0;
    }
    return run_training(job);
  });
}

}  // namespace troupe::command
