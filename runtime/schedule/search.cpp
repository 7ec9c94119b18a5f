#include "runtime/schedule/search.hpp"

namespace troupe::runtime {

plan to_plan(const search_problem& of, const search_rows& rows) {
  static constexpr action_kind kinds[]
      = {action_kind::forward, action_kind::input_gradients, action_kind::weight_gradients};
  plan out{"auto", of.chunks(), of.microbatches, true, of.placement, {}};
  const auto m = std::uint32_t(of.microbatches), c = std::uint32_t(of.chunks());
  for (const auto& row : rows) {
    auto& to = out.ranks.emplace_back();
    to.reserve(row.size());
    for (const auto x : row)
      to.push_back({kinds[x / m / c], chunk_id(x / m % c), microbatch_id(x % m)});
  }
  return out;
}

std::optional<search_rows> to_rows(const search_problem& of, const plan& x) {
  if (x.placement != of.placement || x.copies != 1 || x.microbatches != of.microbatches)
    return {};
  const auto m = std::uint32_t(of.microbatches), n = std::uint32_t(of.chunks());
  std::vector<std::uint32_t> next(3 * n);
  search_rows out;
  for (const auto& row : x.ranks) {
    auto& to = out.emplace_back();
    const auto add = [&](std::uint32_t kind, const action& a) {
      const auto kind_and_chunk = kind * n + value(a.chunk);
      to.push_back(kind_and_chunk * m + value(a.microbatch));
      return next[kind_and_chunk]++ == value(a.microbatch);
    };
    for (const auto& a : row) {
      bool taken = !a.with_next;
      if (a.kind == action_kind::forward)
        taken = taken && add(0, a);
      else if (a.kind == action_kind::backward)
        taken = taken && add(1, a) && add(2, a);
      else if (a.kind == action_kind::input_gradients)
        taken = taken && add(1, a);
      else if (a.kind == action_kind::weight_gradients)
        taken = taken && add(2, a);
      else
        taken = false;
      if (!taken)
        return {};
    }
  }
  return out;
}

}  // namespace troupe::runtime
