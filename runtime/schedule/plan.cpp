#include "runtime/schedule/plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <iterator>

namespace troupe::runtime {

std::string to_string(const action& x, int copies) {
  static constexpr const char* names[]
      = {"F", "B", "I", "W", "R", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "REDUCE_GRAD"};
  std::string out;
  if (copies > 1)
    out += char('a' + value(x.copy));
  fmt::format_to(std::back_inserter(out), "{}{}", value(x.chunk), names[std::size_t(x.kind)]);
  if (x.kind != action_kind::reduce_gradients)
    fmt::format_to(std::back_inserter(out), "{}", value(x.microbatch));
  if (x.block != 0)
    fmt::format_to(std::back_inserter(out), ".{}", x.block);
  return out;
}

std::vector<int> placed_in_turn(int ranks, int chunks_per_rank) {
  std::vector<int> out;
  for (int c = 0; c < ranks * chunks_per_rank; ++c)
    out.push_back(c % ranks);
  return out;
}

std::vector<int> placed_in_v(int ranks) {
  std::vector<int> out;
  for (int c = 0; c < 2 * ranks; ++c)
    out.push_back(c < ranks ? c : 2 * ranks - 1 - c);
  return out;
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

plan forward_only(int ranks, const std::vector<int>& placement, int microbatches) {
  const auto chunks = int(placement.size());
  plan out{"forward-only", chunks, microbatches, false, placement, {}};
  out.ranks.resize(std::size_t(ranks));
  // Micro-batch m is at chunk c at time m + c. In this order no rank waits for a later action.
  for (int time = 0; time < chunks + microbatches - 1; ++time)
    for (int c = std::max(0, time - microbatches + 1); c <= std::min(time, chunks - 1); ++c)
      out.ranks[std::size_t(placement[std::size_t(c)])].push_back(
          {action_kind::forward, chunk_id(c), microbatch_id(time - c)});
  return out;
}

plan forward_only(int ranks, int microbatches) {
  return forward_only(ranks, placed_in_turn(ranks, 1), microbatches);
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
        out.back().with_next = false;  // its partner becomes several actions
        continue;
      }
      const auto& of = blocks.at(value(a.chunk));
      const bool inputs = a.kind != action_kind::weight_gradients;
      const bool weights = a.kind != action_kind::input_gradients;
      for (auto b = std::uint16_t(of.size()); b-- > 0;) {
        const auto add = [&](action_kind kind) {
          out.push_back({kind, a.chunk, a.microbatch, b, a.copy});
        };
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

}  // namespace troupe::runtime
