#include "actors/supervisor/pass_ballots.hpp"

#include "actors/host/merged_reports.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::actors {
namespace {

/// Number of the forward pass; the numbers of its input and weight gradients follow.
std::uint64_t pass_number(const messages::checked_pass& x) {
  return ((std::uint64_t(x.replica) << 48) + (std::uint64_t(value(x.copy)) << 44)
          + (std::uint64_t(value(x.chunk)) << 32) + value(x.microbatch))
         << 2;
}

}  // namespace

void add_ballots(const std::vector<messages::checked_pass>& checked,
                 const runtime::seats& seats,
                 std::vector<ballot>& to) {
  const auto is_replica = [&](int r) { return r >= 0 && r < seats.replicas(); };
  for (const auto& x : checked) {
    runtime::ensure(is_replica(x.replica) && is_replica(x.by) && x.stage_index >= 0
                        && x.stage_index < seats.stages(),
                    each_rank_once);
    const int first = seats.rank_of_stage(x.replica, x.stage_index);
    const std::vector<int> two = {first, seats.rank_of_stage(x.by, x.stage_index)};
    for (const auto layers : runtime::axis_views)
      runtime::ensure(std::ranges::count(seats.alike(first, layers), two.back()) == 1,
                      "VERIFY-2: a pass is computed again by a rank with equal parameters");
    const auto number = pass_number(x);
    to.push_back({first, number, two, {x.output, x.output_again}});
    to.push_back({first, number + 1, two, {x.input_gradient, x.input_gradient_again}});
    if (!x.follows_other)
      to.push_back({first, number + 2, two, {x.weight_gradient, x.weight_gradient_again}});
  }
}

std::string name_of_pass(std::uint64_t number, int copies) {
  const char* const of[] = {"output", "input gradient", "weight gradients"};
  auto out = fmt::format("{} of micro-batch {} of replica {} by chunk {}",
                         of[number % 4],
                         number >> 2 & 0xffffffff,
                         number >> 50,
                         number >> 34 & 0xfff);
  if (copies > 1)
    out += fmt::format(" of copy {}", number >> 46 & 0xf);
  return out;
}

}  // namespace troupe::actors
