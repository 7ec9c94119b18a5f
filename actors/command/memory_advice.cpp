#include "actors/command/memory_advice.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/progress.hpp"

#include <fmt/format.h>

namespace troupe::command {

std::string memory_advice(const runtime::training_job& job,
                          std::int64_t need,
                          const runtime::memory_facts& machine) {
  const auto human = [](std::int64_t bytes) { return runtime::human_bytes(double(bytes)); };
  const auto& layout = job.layout;
  std::string smaller = "--seq-length", more;
  if (job.how.batch.micro > 1)
    smaller = "--micro-batch-size, " + smaller;
  const auto give
      = [&](const char* flag) { more += (more.empty() ? "" : ", ") + std::string(flag); };
  if (job.recompute.granularity != runtime::recompute_granularity::full)
    give("--recompute-granularity full");
  if (!job.reduction.distributed_optimizer && layout.world > layout.tensor * layout.pipeline)
    give("--use-distributed-optimizer");
  if (job.how.precision == runtime::dtype::f32)
    give("--bf16");
  return fmt::format(
      "{} {} {}, and this machine has {}{}; lower {} or the model's size,{} or take a machine with "
      "more memory",
      runtime::counted(layout.world, "worker"),
      layout.world == 1 ? "needs" : "together need",
      human(need),
      human(machine.ceiling()),
      machine.swap > 0 ? " with its swap" : "",
      smaller,
      more.empty() ? "" : " give " + more + ",");
}

}  // namespace troupe::command
