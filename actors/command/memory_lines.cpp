#include "actors/command/memory_lines.hpp"

#include "actors/command/memory_advice.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/forecast/process_forecast.hpp"
#include "runtime/forecast/program_memory.hpp"
#include "runtime/machine/machine.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace troupe::command {
namespace {

const runtime::forecast_group& neediest(const forecasts& groups) {
  return *std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return a.need.peak() < b.need.peak();
  });
}

void tell_worker(const runtime::training_job& job, const runtime::forecast_group& most) {
  const auto& memory = most.need;
  runtime::log_info(
      " peak memory per worker, forecast: up to {}, on stage {} (parameters {}, gradients {}, "
      "optimizer {}{}, activations {}{}); the program itself {} per process",
      runtime::human_bytes(memory.peak()),
      most.pipeline,
      runtime::human_bytes(memory.parameters),
      runtime::human_bytes(memory.gradients),
      runtime::human_bytes(memory.optimizer),
      memory.beside > 0 ? fmt::format(", previous state {}", runtime::human_bytes(memory.beside))
                        : "",
      runtime::human_bytes(memory.activations),
      left_text(memory),
      runtime::human_bytes(runtime::program_memory((job.layout.world + job.layout.processes - 1)
                                                   / job.layout.processes)));
}

/// Logs what each process keeps of another one, if processes keep each other's states.
void tell_keepers(const runtime::training_job& job,
                  const forecasts& groups,
                  const run_hosts& hosts) {
  const auto all = runtime::forecast_processes(job, needs_by_rank(job, groups), hosts_of(hosts));
  for (std::size_t p = 0; p < all.size(); ++p)
    if (all[p].keeps_for >= 0)
      runtime::log_info(" process {} keeps the two newest states of another one's ranks: {}",
                        p,
                        runtime::human_bytes(all[p].kept));
}

}  // namespace

void require_memory(const runtime::training_job& job,
                    const run_hosts& hosts,
                    const forecasts& groups) {
  if (!hosts.nodes.empty())
    return;
  const auto shares = memory_shares(job, needs_by_rank(job, groups), runtime::look_at_memory());
  if (const auto lacking = short_of_memory(shares, true))
    throw runtime::input_error("this run cannot start: {}", memory_advice(job, *lacking));
}

void tell_memory(const runtime::training_job& job,
                 const run_hosts& hosts,
                 const forecasts& groups) {
  tell_worker(job, neediest(groups));
  tell_keepers(job, groups, hosts);
}

void compare_memory(const actors::prepared_job& prepared, const forecasts& groups) {
  const auto& expected = neediest(groups).need;
  std::size_t most = 0;
  for (const auto& [rank, peak] : prepared.node->pools->peaks())
    most = std::max(most, peak);
  const auto& job = prepared.opened().job;
  runtime::log_info(
      " peak memory per worker: {} (forecast {}{})",
      runtime::human_bytes(std::int64_t(most)),
      runtime::human_bytes(expected.peak()),
      job.checkpoints.save.empty()
          ? ""
          : fmt::format(", and {} more{} while a checkpoint is written",
                        runtime::human_bytes(expected.snapshot),
                        job.backend == runtime::backend_kind::cuda ? " of the host's memory" : ""));
}

}  // namespace troupe::command
