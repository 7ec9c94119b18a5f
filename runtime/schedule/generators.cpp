#include "runtime/schedule/generators.hpp"

#include "runtime/core/error.hpp"
#include "runtime/schedule/automatic.hpp"
#include "runtime/schedule/generators/rules.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <fmt/ranges.h>

namespace troupe::runtime {
namespace {

constexpr std::int64_t most_forwards = 1 << 23;

using rule = plan (*)(const schedule_request&);

struct entry {
  named_schedule told;
  rule make;
  bool in_groups = false;      ///< uses `group`
  bool keeps_a_limit = false;  ///< keeps `memory_limit`
};

// clang-format off
constexpr std::array table = {
    entry{{"gpipe", "all forwards, then all backwards",
           "Huang et al., GPipe, 2019", 1, false, false, 1}, schedules::gpipe},
    entry{{"1f1b", "one forward, one backward: holds p micro-batches at most",
           "Narayanan et al., Memory-Efficient Pipeline-Parallel DNN Training, 2021",
           1, false, false, 1}, schedules::one_forward_one_backward},
    entry{{"interleaved", "1F1B over several chunks per rank: less bubble, more transfers",
           "Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters, 2021",
           2, true, false, 1}, schedules::interleaved, true},
    entry{{"looped-bfs", "chunk after chunk, all micro-batches at each: as GPipe with less bubble",
           "Lamy-Poirier, Breadth-First Pipeline Parallelism, 2023", 2, true, false, 1},
          schedules::looped_breadth_first},
    entry{{"zb-h1", "1F1B with W later than I: a third of the bubble, same memory",
           "Qi et al., Zero Bubble Pipeline Parallelism, 2024", 1, false, false, 1},
          schedules::zero_bubble_in_turn},
    entry{{"izb", "interleaved with W later than I: p activations on every rank",
           "torch.distributed.pipelining, ScheduleInterleavedZeroBubble", 2, true, false, 1},
          schedules::zero_bubble_in_turn, true},
    entry{{"zb-h2", "no bubble except the skew of the ranks, for up to 2 p - 1 activations",
           "Qi et al., Zero Bubble Pipeline Parallelism, 2024", 1, false, false, 1},
          schedules::zero_bubble_2, false, true},
    entry{{"zb-v", "no bubble except half the skew when F = I = W, in p activations",
           "Qi et al., Zero Bubble Pipeline Parallelism, 2024", 2, false, true, 1},
          schedules::zero_bubble_v},
    entry{{"v-half", "half of 1F1B's activations on every rank, with less bubble",
           "Qi et al., Pipeline Parallelism with Controllable Memory, 2024", 2, false, true, 1},
          schedules::v_half},
    entry{{"v-min", "a third of 1F1B's activations on every rank",
           "Qi et al., Pipeline Parallelism with Controllable Memory, 2024", 2, false, true, 1},
          schedules::v_min},
    entry{{"dualpipe", "two copies of the model in opposite directions, F and B in pairs",
           "DeepSeek-AI, DeepSeek-V3 Technical Report, 2024", 1, false, false, 2},
          schedules::dualpipe},
    entry{{"dualpipev", "DualPipe folded in the middle: one copy, F and B in pairs",
           "Sea AI Lab, DualPipe could be better without the Dual, 2025", 2, false, true, 1},
          schedules::dualpipe_v},
    entry{{"auto", "made for the given times and memory limit; never slower than those that fit",
           "a search after Qi et al., Zero Bubble Pipeline Parallelism, 2024", 0, true, false, 1},
          [](const schedule_request& request) { return find_best(request).what; }, false, true},
};
// clang-format on

const entry* entry_of(std::string_view name) {
  const auto* found = std::find_if(
      table.begin(), table.end(), [&](const entry& x) { return x.told.name == name; });
  return found == table.end() ? nullptr : found;
}

constexpr auto schedule_names = [] {
  std::array<named_schedule, table.size()> out{};
  for (std::size_t i = 0; i < table.size(); ++i)
    out[i] = table[i].told;
  return out;
}();

void check_request(const entry& of, const schedule_request& request) {
  const auto name = of.told.name;
  if (request.ranks < 1 || request.microbatches < 1)
    throw input_error("{} for {} ranks and {} micro-batches: give at least 1 of each",
                      name,
                      request.ranks,
                      request.microbatches);
  const int v = of.told.chunks_per_rank;
  if (request.chunks_per_rank < 0
      || (!of.told.other_chunks && request.chunks_per_rank > 0 && request.chunks_per_rank != v))
    throw input_error("{} has {} {} per rank, not {}; leave it out",
                      name,
                      v,
                      v == 1 ? "chunk" : "chunks",
                      request.chunks_per_rank);
  if (request.group != 0 && !of.in_groups)
    throw input_error(
        "{} does not group micro-batches, but a group of {} was requested: "
        "leave it out, or use interleaved or izb",
        name,
        request.group);
  for (const double x : {request.memory_limit,
                         request.transfer,
                         request.costs.forward,
                         request.costs.input_gradients,
                         request.costs.weight_gradients})
    if (!std::isfinite(x) || x < 0)
      throw input_error(
          "{}: times and memory limits are finite and at least 0; {} is not", name, x);
  const int chunks = std::max({1, v, request.chunks_per_rank});
  if (std::int64_t(request.ranks) * chunks > most_forwards / request.microbatches)
    throw input_error(
        "{} for {} ranks with {} chunks each and {} micro-batches: a plan holds at "
        "most {} forwards: give fewer",
        name,
        request.ranks,
        chunks,
        request.microbatches,
        most_forwards);
}

/// The peak memory, in activations of one micro-batch through a rank's whole share (held from F to
/// B or W), and the rank with the peak.
std::pair<double, int> peak_of(const plan& x, int chunks_per_rank) {
  int most = 0, where = 0;
  for (std::size_t r = 0; r < x.ranks.size(); ++r) {
    int held = 0;
    const auto& row = x.ranks[r];
    for (auto a = row.begin(); a != row.end();) {
      // both actions of a pair hold memory
      const auto end = a + (a->with_next && row.end() - a > 1 ? 2 : 1);
      held += int(
          std::count_if(a, end, [](const action& y) { return y.kind == action_kind::forward; }));
      if (held > most) {
        most = held;
        where = int(r);
      }
      for (; a != end; ++a)
        held -= a->kind == action_kind::backward || a->kind == action_kind::weight_gradients;
    }
  }
  return {double(most) / chunks_per_rank, where};
}

}  // namespace

std::span<const named_schedule> named_schedules() {
  return schedule_names;
}

const named_schedule* find_schedule(std::string_view name) {
  const auto* found = std::find_if(schedule_names.begin(),
                                   schedule_names.end(),
                                   [&](const named_schedule& x) { return x.name == name; });
  return found == schedule_names.end() ? nullptr : found;
}

plan generate(std::string_view name, const schedule_request& request) {
  const auto* of = entry_of(name);
  if (!of) {
    std::vector<std::string_view> names;
    for (const auto& x : schedule_names)
      names.push_back(x.name);
    throw input_error("no schedule is named '{}': there are {}", name, fmt::join(names, ", "));
  }
  check_request(*of, request);
  auto asked = request;
  if (asked.chunks_per_rank == 0)
    asked.chunks_per_rank = of->told.chunks_per_rank;
  auto out = of->make(asked);
  out.name = name;
  if (request.memory_limit > 0 && !of->keeps_a_limit)
    if (const auto [peak, rank] = peak_of(out, asked.chunks_per_rank); peak > request.memory_limit)
      throw input_error(
          "{} for {} ranks and {} micro-batches holds {} activations at its peak, on "
          "rank {}, but the limit is {}: give {} or more, or use zb-h2 or auto, "
          "which keep a limit",
          name,
          request.ranks,
          request.microbatches,
          peak,
          rank,
          request.memory_limit,
          peak);
  return out;
}

namespace schedules {

plan empty_plan(const schedule_request& request, std::vector<int> placement, int copies) {
  plan out;
  out.microbatches = request.microbatches;
  out.copies = copies;
  out.chunks = int(placement.size()) / copies;
  out.placement = std::move(placement);
  out.ranks.resize(std::size_t(request.ranks));
  for (auto& row : out.ranks)
    row.reserve(std::size_t(request.microbatches) * std::size_t(request.chunks_per_rank) * 3);
  return out;
}

}  // namespace schedules
}  // namespace troupe::runtime
