#include "actors/command/commands.hpp"
#include "actors/command/configuration.hpp"
#include "actors/command/dry_run.hpp"
#include "actors/command/flag_table.hpp"
#include "actors/command/flags.hpp"
#include "actors/command/hosts.hpp"
#include "actors/command/launched_run.hpp"
#include "actors/command/print.hpp"
#include "actors/command/run_front.hpp"
#include "actors/command/run_training.hpp"
#include "actors/command/saved_configuration.hpp"
#include "actors/command/shell_words.hpp"
#include "runtime/job/build.hpp"

#include <cstdlib>
#include <fmt/format.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace troupe::command {

namespace {

int train_one(const command_line& line,
              const runtime::model_family& family,
              training_flags& flags,
              const std::shared_ptr<runtime::meeting>& meeting) {
  const std::string name(family.name());
  recognise_folders(flags);
  const auto job = resolve(flags);
  if (flags.dry_run) {
    print_page(describe(job, hosts_of(flags.hosts, job.layout.processes, flags.launched)));
    return 0;
  }
  const auto hosts = find_hosts(flags.hosts, job.layout.processes, flags.launched);
  write_back(job, flags);
  const auto& kept = job.checkpoints;
  auto again = for_shell((kept.save / configuration_file).string());
  if (kept.load.empty())  // a run does not begin anew among the checkpoints of another
    again += " --load " + for_shell(kept.save.string());
  std::vector<std::string> typed{"troupe", "train", name};
  typed.insert(typed.end(), line.given().begin(), line.given().end());
  const run_request request{
      .configuration
      = configuration_text(kept_settings(line, flags),
                           {"The configuration of a run: every flag that was "
                            "given or decided. Paths are as given.",
                            fmt::format("To resume it: troupe train {} --config {}", name, again),
                            runtime::version_text()}),
      .command = std::move(typed),
      .run_folder = flags.run_folder,
      .hosts = hosts,
      .meeting = meeting};
  return job.layout.processes > 1 ? show_run(job, request) : run_training(job, request);
}

/// "troupe train gpt", and so on.
void add_family(command_line& train, const runtime::model_family& family) {
  const std::string name(family.name());
  auto& line = train.command(
      name,
      fmt::format("trains {} with Megatron-LM's flags, and resumes stopped runs.", family.title()));
  const auto flags = std::make_shared<training_flags>(family);
  const auto table = std::make_shared<std::string (*)(const runtime::model_family&)>(nullptr);
  line.toggle(
      "--help-megatron",
      "Prints every flag of Megatron-LM: if it works, is accepted or is refused here, and why.",
      [table] { *table = megatron_help; });
  line.toggle("--help-megatron-markdown", "As --help-megatron, in Markdown tables.", [table] {
    *table = megatron_markdown;
  });
  declare(line, *flags);
  const auto needed = needed_by(family, line);
  line.begins_with(
      fmt::format("Required: {}--micro-batch-size; --train-iters or --train-samples; --lr; "
                  "--data-path PREFIX or --mock-data; --tokenizer DIR or --tokenizer-type{}.",
                  needed.names,
                  family.hub() == nullptr ? "" : ", unless the --load-hf folder has one"));
  line.begins_with(fmt::format(
      "Example, with made-up data: {} {}--micro-batch-size 4 --train-iters 100 --lr 1e-3 "
      "--mock-data --tokenizer-type NullTokenizer --vocab-size 1000 --eval-iters 0 "
      "--log-interval 10",
      line.path(),
      needed.example));
  line.tells_besides([flags, table] {
    return *table == nullptr ? what_is_missing(*flags) : std::vector<std::string>();
  });
  line.runs([flags, table, &family, &line] {
    if (*table != nullptr) {
      print_page((*table)(family));
      return 0;
    }
    return run_launched(
        *flags,
        line.given(),
        [](const char* x) { return std::getenv(x); },
        [&line, &family](training_flags& all, const auto& meeting) {
          return train_one(line, family, all, meeting);
        });
  });
}

}  // namespace

void add_train(command_line& program) {
  auto& train = program.command("train", "trains a model.");
  for (const auto* family : runtime::families())
    add_family(train, *family);
}

}  // namespace troupe::command
