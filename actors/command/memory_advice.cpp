#include "actors/command/memory_advice.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/device/backend_kind.hpp"
#include "runtime/device/device.hpp"
#include "runtime/family/model_family.hpp"
#include "runtime/forecast/process_forecast.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/job/job_seats.hpp"
#include "runtime/layout/mesh.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <utility>

namespace troupe::command {
namespace {

std::vector<memory_share> shares_of_devices(const runtime::training_job& job,
                                            const std::vector<runtime::memory_forecast>& needs) {
  // Processes have devices of their own, unless the devices are named: hold_devices.
  const auto placed = runtime::placed_of(job.layout);
  const bool shares = !job.devices.numbers.empty();
  std::map<std::pair<int, int>, memory_share> by_device;
  for (std::size_t rank = 0; rank < needs.size(); ++rank) {
    const int number = runtime::device_of(job, int(rank));
    auto& share = by_device[{shares ? 0 : placed.process_of(int(rank)), number}];
    if (share.workers++ == 0) {
      runtime::require_device(number);
      const auto facts = runtime::open_devices().facts(number);
      share.place = fmt::format("device {} ({})", number, facts.name);
      share.on_device = true;
      share.has = facts.memory;
    }
    share.need += needs[rank].peak();
  }
  std::vector<memory_share> out;
  for (auto& [number, share] : by_device)
    out.push_back(std::move(share));
  return out;
}

}  // namespace

std::string left_text(const runtime::memory_forecast& need) {
  std::string out;
  if (need.left_by_others > 0)
    out += fmt::format(", gradients not taken yet {}",
                       runtime::human_bytes(double(need.left_by_others)));
  if (need.verified > 0)
    out += fmt::format(", recomputed passes {}", runtime::human_bytes(double(need.verified)));
  return out;
}

std::string expert_ranks_text(const runtime::training_job& job) {
  const auto& model = job.training.model;
  if (model.family().shared_by_expert_ranks(model).empty())
    return "";
  return fmt::format("; experts: {} x {}",
                     runtime::counted(job.layout.expert, "expert rank"),
                     runtime::counted(job.layout.expert_tensor_ranks(), "expert tensor rank"));
}

std::vector<runtime::memory_forecast> needs_by_rank(
    const runtime::training_job& job, const std::vector<runtime::forecast_group>& groups) {
  const auto ranks = runtime::seats_of(job.layout);
  std::vector<runtime::memory_forecast> out;
  for (int rank = 0; rank < ranks.size(); ++rank) {
    const auto at = ranks.at(rank);
    const int stage = at[runtime::axis::pipeline];
    const int data = at[runtime::axis::data];
    const auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& x) {
      return x.pipeline == stage && x.first_data <= data && data <= x.last_data;
    });
    out.push_back(group == groups.end() ? runtime::memory_forecast() : group->need);
  }
  return out;
}

std::vector<memory_share> memory_shares(const runtime::training_job& job,
                                        const std::vector<runtime::memory_forecast>& needs,
                                        const runtime::memory_facts& machine) {
  if (job.backend == runtime::backend_kind::cuda)
    return shares_of_devices(job, needs);
  std::int64_t all = 0;
  for (const auto& x : needs)
    all += x.peak();
  for (const auto& x : runtime::forecast_processes(job, needs))
    all += x.keeping();
  return {
      {.place = "this machine",
       .swaps = machine.swap > 0,
       .workers = int(needs.size()),
       .need = all,
       .has = machine.total > 0 ? machine.ceiling() : std::numeric_limits<std::int64_t>::max()}};
}

std::optional<memory_share> short_of_memory(const std::vector<memory_share>& shares, bool surely) {
  // Pools round up. On the host up to a fifth of a block is never touched, so it takes no memory.
  // Device memory is always taken in full.
  const auto lacks = [&](const memory_share& x) {
    return (surely && !x.on_device ? x.need / 5 * 4 : x.need) - x.has;
  };
  const auto most
      = std::max_element(shares.begin(), shares.end(), [&](const auto& a, const auto& b) {
          return lacks(a) < lacks(b);
        });
  return most == shares.end() || lacks(*most) <= 0 ? std::nullopt : std::optional(*most);
}

std::string memory_advice(const runtime::training_job& job, const memory_share& lacking) {
  const auto& layout = job.layout;
  std::string smaller = "--seq-length", more;
  if (job.training.batch.micro > 1)
    smaller = "--micro-batch-size, " + smaller;
  const auto give
      = [&](const char* flag) { more += (more.empty() ? "" : ", ") + std::string(flag); };
  if (job.recompute.granularity != runtime::recompute_granularity::full)
    give("--recompute-granularity full");
  if (!job.reduction.distributed_optimizer && layout.world > layout.tensor * layout.pipeline)
    give("--use-distributed-optimizer");
  if (job.training.precision == runtime::dtype::f32)
    give("--bf16");
  if (layout.sums_by_source())
    give("--expert-gradient-sums together");
  return fmt::format("{}{} {} {}, and {} has {}{}; lower {} or the model's size,{} or {}",
                     runtime::counted(lacking.workers, "worker"),
                     lacking.on_device ? " on " + lacking.place : "",
                     lacking.workers == 1 ? "needs" : "together need",
                     runtime::human_bytes(lacking.need),
                     lacking.on_device ? "it" : lacking.place,
                     runtime::human_bytes(lacking.has),
                     lacking.swaps ? " with its swap" : "",
                     smaller,
                     more.empty() ? "" : " give " + more + ",",
                     lacking.on_device
                         ? "take devices with more memory, or more of them (--devices)"
                         : "take a machine with more memory");
}

}  // namespace troupe::command
