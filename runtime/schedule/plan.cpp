#include "runtime/schedule/plan.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::runtime {

std::string to_string(const action& x) {
  static constexpr char letters[] = {'F', 'B', 'I', 'W', 'R'};
  return fmt::format("{}{}{}{}",
                     value(x.chunk),
                     letters[std::size_t(x.kind)],
                     value(x.microbatch),
                     x.block == 0 ? "" : fmt::format(".{}", x.block));
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

plan with_recomputation(plan x, const std::vector<std::vector<char>>& blocks) {
  const bool plain = std::all_of(blocks.begin(), blocks.end(), [](const std::vector<char>& of) {
    return of.size() == 1 && of.front() == 0;
  });
  if (plain || !x.training)
    return x;
  for (auto& row : x.ranks) {
    std::vector<action> out;
    for (const auto& a : row) {
      if (a.kind == action_kind::forward) {
        out.push_back(a);
        continue;
      }
      const auto& of = blocks.at(value(a.chunk));
      const bool inputs = a.kind != action_kind::weight_gradients;
      const bool weights = a.kind != action_kind::input_gradients;
      for (auto b = std::uint16_t(of.size()); b-- > 0;) {
        const auto add = [&](action_kind kind) { out.push_back({kind, a.chunk, a.microbatch, b}); };
        if (inputs && of[b])
          add(action_kind::recompute);
        if (inputs)
          add(action_kind::input_gradients);
        if (weights)
          add(action_kind::weight_gradients);
      }
    }
    row = std::move(out);
  }
  x.blocks = blocks;
  return x;
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
