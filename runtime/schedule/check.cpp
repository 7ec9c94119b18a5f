#include "runtime/schedule/check.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <set>
#include <tuple>

namespace troupe::runtime {
namespace {

using key = std::tuple<action_kind, std::uint32_t, std::uint32_t, int>;

key key_of(action_kind kind, std::uint32_t chunk, std::uint32_t microbatch, int block = 0) {
  return {kind, chunk, microbatch, block};
}

int blocks_of(const plan& x, std::uint32_t chunk) {
  return x.blocks.empty() ? 1 : int(x.blocks[chunk].size());
}

bool is_rebuilt(const plan& x, std::uint32_t chunk, int block) {
  return !x.blocks.empty() && x.blocks[chunk][std::size_t(block)] != 0;
}

/// Carries the plan out as far as it goes, one action at a time, without doing any work.
class rehearsal {
 public:
  explicit rehearsal(const plan& x) : plan_(x), next_(x.ranks.size()) {}

  /// True when every rank came to its end.
  bool run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < next_.size(); ++r)
        while (next_[r] < plan_.ranks[r].size() && missing(plan_.ranks[r][next_[r]]).empty()) {
          finish(plan_.ranks[r][next_[r]++]);
          moved = true;
        }
    }
    for (std::size_t r = 0; r < next_.size(); ++r)
      if (next_[r] < plan_.ranks[r].size())
        return false;
    return true;
  }

  /// "rank 0 waits at 0B0 for 1I0; rank 1 ...".
  std::string who_waits() const {
    std::string out;
    for (std::size_t r = 0; r < next_.size(); ++r) {
      if (next_[r] == plan_.ranks[r].size())
        continue;
      const auto& at = plan_.ranks[r][next_[r]];
      out += fmt::format(
          "{}rank {} waits at {} for {}", out.empty() ? "" : "; ", r, to_string(at), missing(at));
    }
    return out;
  }

 private:
  bool done(action_kind kind, std::uint32_t chunk, std::uint32_t m, int block = 0) const {
    return done_.contains(key_of(kind, chunk, m, block));
  }

  std::string missing(const action& x) const {
    const auto c = value(x.chunk), m = value(x.microbatch);
    const auto last = std::uint32_t(plan_.chunks - 1);
    const auto name = [&](action_kind kind, std::uint32_t chunk, int block = 0) {
      return to_string(action{kind, chunk_id(chunk), microbatch_id(m), std::uint16_t(block)});
    };
    const auto wait_for = [&](action_kind kind, std::uint32_t chunk, int block = 0) {
      return done(kind, chunk, m, block) ? std::string() : name(kind, chunk, block);
    };
    const int b = x.block;
    switch (x.kind) {
      case action_kind::forward:
        return c > 0 ? wait_for(action_kind::forward, c - 1) : "";
      case action_kind::recompute:
        return wait_for(action_kind::forward, c);
      case action_kind::backward:
      case action_kind::input_gradients:
        if (const auto forward = wait_for(action_kind::forward, c); !forward.empty())
          return forward;
        if (is_rebuilt(plan_, c, b) && !done(action_kind::recompute, c, m, b))
          return name(action_kind::recompute, c, b);
        if (b + 1 < blocks_of(plan_, c))
          return wait_for(action_kind::input_gradients, c, b + 1);
        return c < last ? wait_for(action_kind::input_gradients, c + 1) : "";
      case action_kind::weight_gradients:
        return wait_for(action_kind::input_gradients, c, b);
      default:
        return "";
    }
    return "";
  }

  void finish(const action& x) {
    const auto kind = x.kind == action_kind::backward ? action_kind::input_gradients : x.kind;
    done_.insert(key_of(kind, value(x.chunk), value(x.microbatch), x.block));
  }

  const plan& plan_;
  std::vector<std::size_t> next_;
  std::set<key> done_;
};

void check_block(const plan& x,
                 std::map<key, int>& count,
                 std::uint32_t c,
                 std::uint32_t m,
                 int block,
                 std::vector<std::string>& out) {
  const auto n = [&](action_kind kind, int of) { return count[key_of(kind, c, m, of)]; };
  const int f = n(action_kind::forward, 0), b = n(action_kind::backward, block),
            i = n(action_kind::input_gradients, block), w = n(action_kind::weight_gradients, block),
            r = n(action_kind::recompute, block);
  const int back = x.training ? 1 : 0;
  const int again = x.training && is_rebuilt(x, c, block) ? 1 : 0;
  if (f != 1 || b + i != back || b + w != back || r != again)
    out.push_back(
        fmt::format("PLAN-1: chunk {} micro-batch {} block {} has F {} times, B {}, R {}, I {}, W "
                    "{}; it needs F once, in training B once or I and W once each, and R {} times",
                    c,
                    m,
                    block,
                    f,
                    b,
                    r,
                    i,
                    w,
                    again));
}

void check_once(const plan& x, std::vector<std::string>& out) {
  std::map<key, int> count;
  for (std::size_t r = 0; r < x.ranks.size(); ++r)
    for (const auto& a : x.ranks[r]) {
      const auto c = value(a.chunk), m = value(a.microbatch);
      if (int(c) >= x.chunks || int(m) >= x.microbatches)
        out.push_back(
            fmt::format("PLAN-1: {} on rank {} is of no chunk or micro-batch of this "
                        "step ({} chunks, {} micro-batches)",
                        to_string(a),
                        r,
                        x.chunks,
                        x.microbatches));
      else if (x.placement[c] != int(r))
        out.push_back(fmt::format("PLAN-1: {} stands on rank {}, but its chunk is on rank {}",
                                  to_string(a),
                                  r,
                                  x.placement[c]));
      else if (int(a.block) >= blocks_of(x, c))
        out.push_back(fmt::format(
            "PLAN-1: {} on rank {}: chunk {} has {} blocks", to_string(a), r, c, blocks_of(x, c)));
      ++count[key_of(a.kind, c, m, a.block)];
    }
  for (int c = 0; c < x.chunks; ++c)
    for (int m = 0; m < x.microbatches; ++m)
      for (int block = 0; block < blocks_of(x, std::uint32_t(c)); ++block)
        check_block(x, count, std::uint32_t(c), std::uint32_t(m), block, out);
}

void check_accumulation(const plan& x, std::vector<std::string>& out) {
  for (std::size_t r = 0; r < x.ranks.size(); ++r) {
    std::map<std::pair<std::uint32_t, int>, std::uint32_t> next;
    for (const auto& a : x.ranks[r]) {
      if (a.kind != action_kind::backward && a.kind != action_kind::weight_gradients)
        continue;
      auto& expected = next[{value(a.chunk), a.block}];
      if (value(a.microbatch) != expected++) {
        out.push_back(
            fmt::format("PLAN-4: on rank {} the weight gradients of {} are added out of "
                        "order",
                        r,
                        to_string(a)));
        break;
      }
    }
  }
}

}  // namespace

std::vector<std::string> complaints(const plan& x) {
  std::vector<std::string> out;
  if (int(x.placement.size()) != x.chunks) {
    out.push_back("PLAN-1: every chunk has a rank");
    return out;
  }
  check_once(x, out);
  rehearsal play(x);
  if (out.empty() && !play.run())
    out.push_back("PLAN-3: " + play.who_waits());
  if (out.empty())
    check_accumulation(x, out);
  return out;
}

}  // namespace troupe::runtime
