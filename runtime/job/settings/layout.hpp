// The workers of a job and their shares of the model.

#pragma once

#include "runtime/core/setting.hpp"
#include "runtime/job/pipeline_schedule.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/parameters/store.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

constexpr std::int64_t most_workers = 1 << 16;

/// How rows travel to the workers of their experts. Does not change bits.
enum class token_dispatcher : std::uint8_t {
  alltoall,   ///< sends the rows that are asked for
  allgather,  ///< gathers the rows of all workers, and takes those that are asked for
};
/// The values of the flags.
inline std::string_view to_string(token_dispatcher x) {
  return x == token_dispatcher::alltoall ? "alltoall" : "allgather";
}
inline std::string_view to_string(source_sums x) {
  return x == source_sums::by_source ? "by_source" : "together";
}

struct layout_settings {
  int world = 1;  ///< number of workers
  int tensor = 1;
  int pipeline = 1;       ///< the data-parallel size is world / (tensor * pipeline)
  int expert = 1;         ///< expert ranks; the mesh of experts has the same workers
  int expert_tensor = 0;  ///< 0: as many as `tensor`; see expert_tensor_ranks
  token_dispatcher dispatcher = token_dispatcher::alltoall;
  source_sums expert_sums = source_sums::by_source;
  std::string order = "tp-cp-ep-dp-pp";
  bool sequence_parallel = false;  ///< shards the rows of the residual stream over the tensor axis

  /// `layout.replicas_per_worker`: logical replicas that each data-parallel rank computes in turn,
  /// each with its own gradients. Gives the same bits as that many times more ranks, unless
  /// sums_follow_ranks.
  int replicas_per_worker = 1;

  /// Processes that host workers, each with contiguous ranks of the mesh; one more process hosts
  /// none. 1: a single process hosts everything. Does not change bits.
  int processes = 1;

  schedule_settings schedule;  ///< order of the actions, and chunks per rank

  /// Units of each chunk of the model. `resolve` fills it in from one of these: a text that lists
  /// all stages, the layers of the first and the last stage, the cost of embedding and loss, or an
  /// even split.
  std::vector<chunk_range> chunks;

  int expert_tensor_ranks() const { return expert_tensor == 0 ? tensor : expert_tensor; }

  /// True: experts have a gradient for each expert rank.
  bool sums_by_source() const { return expert > 1 && expert_sums == source_sums::by_source; }

  /// False: gradients of experts are added in the order of logical replicas. True: their order also
  /// depends on the ranks that share the experts, and on the replicas that each of them computes.
  bool sums_follow_ranks() const {
    return expert_tensor_ranks() != tensor
           || (expert > 1 && (tensor > 1 || expert_sums == source_sums::together));
  }

  static constexpr auto fields() {
    using x = layout_settings;
    return std::tuple(
        row("world", &x::world)
            .own_flag({.name = "--world-size",
                       .unit = "workers",
                       .default_value = "one replica",
                       .help
                       = "Workers of the run. The data-parallel size is this number divided by "
                         "the other sizes.",
                       .range = whole_range{1, most_workers},
                       .only_given = true,
                       .resume = at_resume::told}),
        row("tensor", &x::tensor)
            .decides()
            .flag({.name = "--tensor-model-parallel-size",
                   .unit = "workers",
                   .help = "Tensor-parallel workers, which share every matrix product.",
                   .megatron = "in one process: give the number of workers by --world-size",
                   .range = whole_range{1, most_workers}}),
        row("pipeline", &x::pipeline)
            .decides()
            .flag({.name = "--pipeline-model-parallel-size",
                   .type = "P",
                   .unit = "stages",
                   .help = "Pipeline stages; each holds 1/P of the layers.",
                   .megatron = "in one process: give the number of workers by --world-size",
                   .range = whole_range{1, most_workers}}),
        row("expert", &x::expert)
            .decides([](const x& l) { return l.expert > 1 && l.sums_follow_ranks(); })
            .flag({.name = "--expert-model-parallel-size",
                   .unit = "workers",
                   .default_value = "1",
                   .help
                   = "Workers that share the experts of each layer, also of several replicas. "
                     "Above 1 only for a model with experts.",
                   .megatron = "above 1 only for a model with experts",
                   .range = whole_range{1, most_workers},
                   .only_given = true}),
        row("expert_tensor", &x::expert_tensor)
            .decides([](const x& l) { return l.expert_tensor_ranks() != l.tensor; })
            .flag({.name = "--expert-tensor-parallel-size",
                   .unit = "workers",
                   .default_value = "--tensor-model-parallel-size",
                   .help = "Workers that share the matrices of each expert.",
                   .megatron = "above 1 only for a model with experts",
                   .range = whole_range{1, most_workers},
                   .only_given = true}),
        row("dispatcher", &x::dispatcher)
            .flag({.name = "--moe-token-dispatcher-type",
                   .type = "NAME",
                   .default_value = "alltoall",
                   .help = "How tokens travel to the workers of their experts. alltoall: each to "
                           "its experts' workers. allgather: all to all workers. The same bits.",
                   .megatron = "alltoall by default; no flex",
                   .only_given = true})
            .one_of(token_dispatcher::alltoall, token_dispatcher::allgather),
        row("expert_sums", &x::expert_sums)
            .decides(
                [](const x& l) { return l.expert > 1 && l.expert_sums == source_sums::together; })
            .own_flag({.name = "--expert-gradient-sums",
                       .type = "NAME",
                       .default_value = "by_source",
                       .help
                       = "Order of the sums in gradients of experts. by_source: tokens of each "
                         "worker apart, then in the order of workers; the same bits for any "
                         "--expert-model-parallel-size. together: less memory.",
                       .only_given = true})
            .one_of(source_sums::by_source, source_sums::together),
        row("order", &x::order)
            .decides()
            .flag({.name = "--use-tp-pp-dp-mapping",
                   .help = "Rank order tp-cp-ep-pp-dp: numbers pipeline stages before replicas.",
                   .value = "tp-cp-ep-pp-dp"}),
        row("sequence_parallel", &x::sequence_parallel)
            .decides()
            .flag({.name = "--sequence-parallel",
                   .help = "Between matrix products each tensor-parallel worker holds 1/N of the "
                           "tokens, instead of all. No effect with --tensor-model-parallel-size 1.",
                   .megatron = "off, with a warning, without tensor parallelism"}),
        row("replicas_per_worker", &x::replicas_per_worker)
            .decides([](const x& l) { return l.sums_follow_ranks(); })
            .own_flag({.name = "--replicas-per-worker",
                       .unit = "replicas",
                       .help
                       = "Each data-parallel rank computes N logical replicas in turn: the same "
                         "bits on fewer workers, for the same --threads-per-worker. With "
                         "--expert-model-parallel-size above 1, only without tensor parallelism "
                         "and with --expert-gradient-sums by_source.",
                       .range = whole_range{1, most_workers},
                       .resume = at_resume::told}),
        row("processes", &x::processes)
            .own_flag({.name = "--processes",
                       .unit = "processes",
                       .default_value = "1, or as many as --nodes",
                       .help
                       = "Distributes the workers over N processes, on this machine unless --nodes "
                         "is given. One more process supervises and computes nothing. If a process "
                         "dies, only its workers are lost. The same bits as in one process.",
                       .range = whole_range{1, most_workers},
                       .only_given = true}),
        row("schedule", &x::schedule),
        row("chunks", &x::chunks));
  }
};

}  // namespace troupe::runtime
