#include "actors/command/settings/settings.hpp"

#include <utility>

namespace troupe::command::settings {
namespace {

/// Reads the size of an axis that this build does not support; accepts only 1.
reader only_one(std::string why) {
  return [why = std::move(why)](const std::string& flag, const std::string& word) {
    if (parse_whole(flag, word, {1, 1 << 30}) != 1)
      throw usage_error("{} {} is refused: {}; give 1", flag, word, why);
  };
}

}  // namespace

void declare_layout(command_line& line, training_flags& to) {
  auto& l = to.job.layout;
  line.group("Layout: workers and their shares");
  line.value(
      {.name = "--world-size",
       .field = "layout.world",
       .type = "N",
       .unit = "workers",
       .default_value = "one replica",
       .help
       = "Workers of the run. The data-parallel size is this number divided by the other sizes.",
       .resume = at_resume::told},
      if_given(whole(l.world, 1, most_workers)));
  line.value({.name = "--processes",
              .field = "layout.processes",
              .type = "N",
              .unit = "processes",
              .default_value = "1, or as many as --nodes",
              .help = "Distributes the workers over N processes, on this machine unless --nodes is "
                      "given. One more process supervises and computes nothing. If a process dies, "
                      "only its workers are lost. The same bits as in one process."},
             if_given(whole(l.processes, 1, most_workers)));
  declare_hosts(line, to.hosts);
  line.value({.name = "--tensor-model-parallel-size",
              .field = "layout.tensor",
              .type = "N",
              .unit = "workers",
              .help = "Tensor-parallel workers, which share every matrix product.",
              .megatron = "in one process: give the number of workers by --world-size",
              .resume = at_resume::told},
             whole(l.tensor, 1, most_workers));
  line.toggle({.name = "--sequence-parallel",
               .field = "layout.sequence_parallel",
               .help = "Between matrix products each tensor-parallel worker holds 1/N of the "
                       "tokens, instead of all. No effect with --tensor-model-parallel-size 1.",
               .megatron = "off, with a warning, without tensor parallelism",
               .resume = at_resume::told},
              [&l] { l.sequence_parallel = true; });
  line.value({.name = "--pipeline-model-parallel-size",
              .field = "layout.pipeline",
              .type = "P",
              .unit = "stages",
              .help = "Pipeline stages; each holds 1/P of the layers.",
              .megatron = "in one process: give the number of workers by --world-size",
              .resume = at_resume::told},
             whole(l.pipeline, 1, most_workers));
  line.value({.name = "--context-parallel-size",
              .field = "layout.context",
              .type = "N",
              .default_value = "1",
              .help = "Only 1: this build does not split samples over workers.",
              .megatron = "only 1"},
             only_one("this build does not split samples over workers; use "
                      "--pipeline-model-parallel-size"));
  line.value({.name = "--expert-model-parallel-size",
              .field = "layout.expert",
              .type = "N",
              .default_value = "1",
              .help = "Only 1: this build has no experts.",
              .megatron = "only 1"},
             only_one("this build has no mixture-of-experts layers"));
  line.value({.name = "--expert-tensor-parallel-size",
              .field = "layout.expert_tensor",
              .type = "N",
              .default_value = "1",
              .help = "Only 1: this build has no experts.",
              .megatron = "only 1"},
             only_one("this build has no mixture-of-experts layers"));
  line.toggle({.name = "--use-tp-pp-dp-mapping",
               .field = "layout.order",
               .help = "Rank order tp-cp-ep-pp-dp: numbers pipeline stages before replicas.",
               .megatron = "",
               .resume = at_resume::told},
              [&l] { l.order = "tp-cp-ep-pp-dp"; });
  line.value({.name = "--replicas-per-worker",
              .field = "layout.replicas_per_worker",
              .type = "N",
              .unit = "replicas",
              .help = "Each data-parallel rank computes N logical replicas in turn: the same bits "
                      "on fewer workers, for the same --threads-per-worker.",
              .resume = at_resume::told},
             whole(l.replicas_per_worker, 1, most_workers));
  line.value({.name = "--threads-per-worker",
              .field = "threads_per_worker",
              .type = "N",
              .unit = "threads",
              .default_value = "cores / workers, at least 1",
              .help = "Threads that each worker computes with. Part of the run's identity: another "
                      "number may change bits.",
              .resume = at_resume::told},
             if_given(whole(to.job.threads_per_worker, 1, 4096)));
  line.toggle(
      {.name = "--bf16",
       .field = "precision=bf16",
       .help
       = "Parameters and activations in bf16; master weights, moments and gradients stay fp32.",
       .megatron = "gradients are accumulated, reduced and kept in fp32",
       .resume = at_resume::told},
      [&to] { to.job.training.precision = runtime::dtype::bf16; });
  line.toggle({.name = "--fp16",
               .field = "precision=f16",
               .help = "As --bf16, in fp16 and with loss scaling. On a CPU it saves memory and is "
                       "slower than --bf16.",
               .megatron = "gradients are accumulated, reduced and kept in fp32",
               .resume = at_resume::told},
              [&to] { to.job.training.precision = runtime::dtype::f16; });
  line.toggle({.name = "--dry-run",
               .field = "dry_run",
               .help = "Resolves and checks flags, files and layout, prints model, layout, plan "
                       "and memory, and exits. Does not build the sample order."},
              [&to] { to.dry_run = true; });
}

}  // namespace troupe::command::settings
