#include "actors/command/commands.hpp"
#include "actors/command/configuration.hpp"
#include "actors/command/dry_run.hpp"
#include "actors/command/flag_table.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/hosts.hpp"
#include "actors/command/launcher.hpp"
#include "actors/command/print.hpp"
#include "actors/command/run_front.hpp"
#include "actors/command/run_training.hpp"
#include "actors/command/saved_configuration.hpp"
#include "actors/command/shell_words.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/build.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command {

void add_train(command_line& program) {
  auto& train = program.command("train", "trains a model.");
  auto& gpt
      = train.command("gpt", "trains a GPT with Megatron-LM's flags, and resumes stopped runs.");
  const auto flags = std::make_shared<training_flags>();
  const auto table = std::make_shared<std::string (*)()>(nullptr);
  gpt.toggle(
      "--help-megatron",
      "Prints every flag of Megatron-LM: if it works, is accepted or is refused here, and why.",
      [table] { *table = megatron_help; });
  gpt.toggle("--help-megatron-markdown", "As --help-megatron, in Markdown tables.", [table] {
    *table = megatron_markdown;
  });
  declare(gpt, *flags);
  gpt.begins_with(
      "Required: --num-layers, --hidden-size, --num-attention-heads and --seq-length, or --load-hf "
      "DIR; --micro-batch-size; --train-iters or --train-samples; --lr; --data-path PREFIX or "
      "--mock-data; --tokenizer DIR or --tokenizer-type, unless the --load-hf folder has one.");
  gpt.begins_with(
      "Example, with made-up data: troupe train gpt --num-layers 2 --hidden-size 64 "
      "--num-attention-heads 4 --seq-length 64 --micro-batch-size 4 --train-iters 100 --lr 1e-3 "
      "--mock-data --tokenizer-type NullTokenizer --vocab-size 1000 --eval-iters 0 "
      "--log-interval 10");
  gpt.tells_besides([flags, table] {
    return *table == nullptr ? what_is_missing(*flags) : std::vector<std::string>();
  });
  gpt.runs([flags, table, &gpt] {
    if (*table != nullptr) {
      print_page((*table)());
      return 0;
    }
    recognise_folders(*flags);
    const auto job = resolve(*flags);
    if (flags->dry_run) {
      print_page(describe(job, hosts_of(flags->hosts)));
      return 0;
    }
    if (const auto warning = launcher_warning([](const char* name) { return std::getenv(name); }))
      runtime::log_warning("{}", *warning);
    const auto hosts = find_hosts(flags->hosts);
    write_back(job, *flags);
    const auto& kept = job.checkpoints;
    auto again = for_shell((kept.save / configuration_file).string());
    if (kept.load.empty())  // a run does not begin anew among the checkpoints of another
      again += " --load " + for_shell(kept.save.string());
    std::vector<std::string> typed{"troupe", "train", "gpt"};
    typed.insert(typed.end(), gpt.given().begin(), gpt.given().end());
    const run_request request{
        .configuration = configuration_text(kept_settings(gpt, *flags),
                                            {"The configuration of a run: every flag that was "
                                             "given or decided. Paths are as given.",
                                             "To resume it: troupe train gpt --config " + again,
                                             runtime::version_text()}),
        .command = std::move(typed),
        .run_folder = flags->run_folder,
        .hosts = hosts};
    return job.layout.processes > 1 ? show_run(job, request) : run_training(job, request);
  });
}

}  // namespace troupe::command
