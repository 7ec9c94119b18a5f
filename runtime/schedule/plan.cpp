#include "runtime/schedule/plan.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {

std::string to_string(const action& x) {
  static constexpr char letters[] = {'F', 'B', 'I', 'W'};
  return fmt::format("{}{}{}", value(x.chunk), letters[std::size_t(x.kind)], value(x.microbatch));
}

plan one_forward_one_backward(int ranks, int microbatches) {
  plan out{"1f1b", ranks, microbatches, true, {}, {}};
  for (int r = 0; r < ranks; ++r) {
    out.placement.push_back(r);
    auto& row = out.ranks.emplace_back();
    const auto add = [&](action_kind kind, int m) {
      row.push_back({kind, chunk_id(r), microbatch_id(m)});
    };
    const int warmup = std::min(ranks - 1 - r, microbatches);
    for (int m = 0; m < warmup; ++m)
      add(action_kind::forward, m);
    for (int m = warmup; m < microbatches; ++m) {
      add(action_kind::forward, m);
      add(action_kind::backward, m - warmup);
    }
    for (int m = microbatches - warmup; m < microbatches; ++m)
      add(action_kind::backward, m);
  }
  return out;
}

plan forward_only(int ranks, int microbatches) {
  plan out{"forward-only", ranks, microbatches, false, {}, {}};
  for (int r = 0; r < ranks; ++r) {
    out.placement.push_back(r);
    auto& row = out.ranks.emplace_back();
    for (int m = 0; m < microbatches; ++m)
      row.push_back({action_kind::forward, chunk_id(r), microbatch_id(m)});
  }
  return out;
}

std::string to_csv(const plan& x) {
  std::string out;
  for (const auto& row : x.ranks) {
    for (std::size_t i = 0; i < row.size(); ++i)
      out += (i ? "," : "") + to_string(row[i]);
    out += '\n';
  }
  return out;
}

}  // namespace troupe::runtime
