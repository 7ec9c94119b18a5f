#include "actors/simulation/lane_faults.hpp"

#include "runtime/job/job_seats.hpp"

#include <array>
#include <bit>
#include <fmt/format.h>

namespace troupe::actors::simulation {
namespace {

using kind = disturbance::kind;

/// The rank with number `which`, counted over replicas and their stages. For a snapshot
/// only the first replica counts: the others write no checkpoint.
std::string rank_text(const runtime::training_job& job, const disturbance& x) {
  const auto all = runtime::seats_of(job.layout);
  const auto ranks = x.moment->message == "snapshot" ? all.stages() : all.size();
  const auto which = int(x.which % std::uint64_t(ranks));
  return all.name(all.rank_of_stage(which / all.stages(), which % all.stages()));
}

std::string name_of(const runtime::training_job& job, const disturbance& x) {
  return x.who == "supervisor" || x.who == "node" ? x.who : x.who + ":" + rank_text(job, x);
}

int replicas(const runtime::training_job& job) {
  return runtime::seats_of(job.layout).replicas();
}

bool can_suffer(const runtime::training_job& job, const disturbance& x) {
  if (x.what == kind::wrong_bits)
    return replicas(job) > 1 && !job.reduction.distributed_optimizer;
  if (x.what == kind::hang)
    return x.who != "wire" || (replicas(job) > 1 && job.reduction.overlap_gradients);
  return false;
}

}  // namespace

bool names_wrong_bits(const std::string& reason) {
  constexpr std::array promises = {"STEP-2", "STEP-5", "STEP-6"};
  for (const auto* const x : promises)
    if (reason.find(x) != std::string::npos)
      return true;
  return false;
}

std::vector<planted_fault> planted_in(const runtime::training_job& job,
                                      const std::vector<disturbance>& all) {
  std::vector<planted_fault> out;
  for (const auto& x : all)
    if (can_suffer(job, x))
      out.push_back({fmt::format("{}@{}:{}:{}",
                                 name_of(job, x),
                                 x.moment->count,
                                 x.moment->message,
                                 x.what == kind::hang ? "hang" : "wrong-bits"),
                     x});
  return out;
}

int damage_kept(estate_registry& estates, const runtime::training_job& job, std::uint64_t which) {
  if (estates.ranks() != job.layout.world || !estates.common())
    return -1;
  const auto rank = int(which % std::uint64_t(job.layout.world));
  const auto estate = estates.of(rank);
  for (const int slot : {0, 1})
    for (const auto& [chunk, part] : estate->arrays(slot))
      if (!part.own_weights.empty()) {
        auto weights = part.arrays.weights;
        auto& x = weights.data<float>()[part.own_weights.front().first];
        x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) ^ 1U << 20);
        break;
      }
  return rank;
}

}  // namespace troupe::actors::simulation
