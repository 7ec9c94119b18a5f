#include "actors/command/settings/settings.hpp"

#include <utility>

namespace troupe::command::settings {
namespace {

/// An axis that this build knows but cannot yet cut along.
reader only_one(std::string why) {
  return [why = std::move(why)](const std::string& flag, const std::string& word) {
    if (parse_whole(flag, word, {1, 1 << 30}) != 1)
      throw usage_error("{} {} is refused: {}; give 1", flag, word, why);
  };
}

}  // namespace

void declare_layout(command_line& line, training_flags& to) {
  auto& l = to.layout;
  line.group("Layout: workers and what each holds");
  line.value({.name = "--world-size",
              .field = "layout.world",
              .type = "N",
              .unit = "workers",
              .default_value = "one replica",
              .help = "Workers. Data parallelism is what the other axes leave.",
              .resume = at_resume::told},
             whole(l.world, 1, most_workers));
  line.value({.name = "--processes",
              .field = "layout.processes",
              .type = "N",
              .unit = "processes",
              .default_value = "1, or as many as --nodes",
              .help = "The workers stand in N processes, of this machine without --nodes, beside "
                      "one that computes nothing and decides: the death of one is that of its "
                      "workers alone. The same bits as in one process."},
             whole(l.processes, 1, most_workers));
  declare_hosts(line, to.hosts);
  line.value({.name = "--tensor-model-parallel-size",
              .field = "layout.tensor",
              .type = "N",
              .unit = "workers",
              .help = "Every matrix product is shared by N workers.",
              .megatron = "in one process: give the number of workers by --world-size",
              .resume = at_resume::told},
             whole(l.tensor, 1, most_workers));
  line.toggle({.name = "--sequence-parallel",
               .field = "layout.sequence_parallel",
               .help = "Between products each of them holds 1/N of the tokens, instead of all. "
                       "No effect with --tensor-model-parallel-size 1.",
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
              .help = "1 only: this build does not cut samples.",
              .megatron = "1 only"},
             only_one("this build does not cut samples over workers; use "
                      "--pipeline-model-parallel-size"));
  line.value({.name = "--expert-model-parallel-size",
              .field = "layout.expert",
              .type = "N",
              .default_value = "1",
              .help = "1 only: this build has no experts.",
              .megatron = "1 only"},
             only_one("this build has no mixture-of-experts layers"));
  line.value({.name = "--expert-tensor-parallel-size",
              .field = "layout.expert_tensor",
              .type = "N",
              .default_value = "1",
              .help = "1 only: this build has no experts.",
              .megatron = "1 only"},
             only_one("this build has no mixture-of-experts layers"));
  line.toggle({.name = "--use-tp-pp-dp-mapping",
               .field = "layout.order",
               .help = "Numbers pipeline stages before replicas: rank order tp-cp-ep-pp-dp.",
               .megatron = "",
               .resume = at_resume::told},
              [&l] { l.pipeline_before_data = true; });
  line.value({.name = "--replicas-per-worker",
              .field = "layout.replicas_per_worker",
              .type = "N",
              .unit = "replicas",
              .help = "Every data-parallel rank plays N replicas in turn: fewer workers, the same "
                      "bits for the same --threads-per-worker.",
              .resume = at_resume::told},
             whole(l.replicas_per_worker, 1, most_workers));
  line.value({.name = "--threads-per-worker",
              .field = "threads_per_worker",
              .type = "N",
              .unit = "threads",
              .default_value = "cores / workers, at least 1",
              .help = "Threads of each worker's arithmetic. Part of the run's identity: another "
                      "number may give other bits.",
              .resume = at_resume::told},
             whole(l.threads, 1, 4096));
  line.toggle({.name = "--bf16",
               .field = "precision=bf16",
               .help = "Parameters and activations in bf16; the weights that are updated, their "
                       "moments and gradients stay fp32.",
               .megatron = "gradients are added, summed and kept in fp32",
               .resume = at_resume::told},
              [&l] { l.bf16 = true; });
  line.toggle({.name = "--fp16",
               .field = "precision=f16",
               .help = "The same in fp16, whose loss is scaled. On a CPU it saves memory and takes "
                       "more time than --bf16.",
               .megatron = "gradients are added, summed and kept in fp32",
               .resume = at_resume::told},
              [&l] { l.fp16 = true; });
  line.toggle({.name = "--dry-run",
               .field = "dry_run",
               .help = "Resolves and checks flags, files and layout, prints model, layout, plan "
                       "and memory, and exits; the sample order is not built."},
              [&to] { to.dry_run = true; });
}

}  // namespace troupe::command::settings
