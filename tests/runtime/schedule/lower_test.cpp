#include "runtime/schedule/lower.hpp"

#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/plan.hpp"
#include "runtime/schedule/simulate.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using namespace troupe::runtime;

namespace {

constexpr auto F = action_kind::forward, B = action_kind::backward,
               I = action_kind::input_gradients, W = action_kind::weight_gradients;

action of(action_kind kind, int chunk, int m, bool with_next = false) {
  return {kind, chunk_id(chunk), microbatch_id(m), 0, {}, with_next};
}

std::string text(const std::vector<action>& row) {
  std::string out;
  for (const auto& a : row)
    out += to_string(a) + (a.with_next ? " and " : ",");
  return out;
}

}  // namespace

TEST_CASE("lowering adds sends, receives and the reduction", "[schedule][lower]") {
  CHECK(to_csv(lowered(one_forward_one_backward(2, 2)))
        == "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0I0,0W0,0RECV_B1,0I1,0W1,0REDUCE_GRAD\n"
           "1RECV_F0,1F0,1I0,1SEND_B0,1W0,1RECV_F1,1F1,1I1,1SEND_B1,1W1,1REDUCE_GRAD\n");
}

TEST_CASE("neighbouring chunks on one rank are lowered without a transfer", "[schedule][lower]") {
  plan x{"v", 4, 1, true, placed_in_v(2), {{}, {}}};
  x.ranks[0] = {of(F, 0, 0), of(F, 3, 0), of(B, 3, 0), of(B, 0, 0)};
  x.ranks[1] = {of(F, 1, 0), of(F, 2, 0), of(B, 2, 0), of(B, 1, 0)};
  CHECK(to_csv(lowered(x))
        == "0F0,0SEND_F0,3RECV_F0,3F0,3I0,3SEND_B0,3W0,3REDUCE_GRAD,0RECV_B0,0I0,0W0,0REDUCE_GRAD\n"
           "1RECV_F0,1F0,2F0,2SEND_F0,2RECV_B0,2I0,2W0,2REDUCE_GRAD,1I0,1SEND_B0,1W0,"
           "1REDUCE_GRAD\n");
}

TEST_CASE("receives are in the order of their link's sends, even if needed in another order",
          "[schedule][lower]") {
  plan x{"turned", 2, 2, true, {0, 1}, {{}, {}}};
  x.ranks[0] = {of(F, 0, 0), of(F, 0, 1), of(B, 0, 1), of(B, 0, 0)};
  x.ranks[1] = {of(F, 1, 1), of(F, 1, 0), of(B, 1, 1), of(B, 1, 0)};
  const auto seen = lowered(x);
  CHECK(to_csv(seen)
        == "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B1,0I1,0W1,0RECV_B0,0I0,0W0,0REDUCE_GRAD\n"
           "1RECV_F0,1RECV_F1,1F1,1F0,1I1,1SEND_B1,1W1,1I0,1SEND_B0,1W0,1REDUCE_GRAD\n");
}

TEST_CASE("a lowered pair stays a pair, with receives before and sends after it",
          "[schedule][lower]") {
  plan x{"pair", 3, 2, true, {0, 1, 2}, {{}, {}, {}}};
  x.ranks[0] = {of(F, 0, 0), of(F, 0, 1), of(B, 0, 0), of(B, 0, 1)};
  x.ranks[1] = {of(F, 1, 0), of(F, 1, 1, true), of(B, 1, 0), of(B, 1, 1)};
  x.ranks[2] = {of(F, 2, 0), of(B, 2, 0), of(F, 2, 1), of(B, 2, 1)};
  CHECK(text(lowered(x).ranks[1])
        == "1RECV_F0,1F0,1SEND_F0,1RECV_F1,1RECV_B0,1F1 and 1B0,1SEND_F1,1SEND_B0,1RECV_B1,1I1,"
           "1SEND_B1,1W1,1REDUCE_GRAD,");
}

TEST_CASE("blocks are lowered: the last one receives, the first one sends", "[schedule][lower]") {
  const auto x = with_recomputation(one_forward_one_backward(2, 1), {{1, 0}, {0, 1}});
  CHECK(to_csv(lowered(x))
        == "0F0,0SEND_F0,0RECV_B0,0I0.1,0W0.1,0R0,0I0,0W0,0REDUCE_GRAD\n"
           "1RECV_F0,1F0,1R0.1,1I0.1,1W0.1,1I0,1SEND_B0,1W0,1REDUCE_GRAD\n");
}

TEST_CASE("lowering a lowered plan does not change it", "[schedule][lower]") {
  for (const int p : {1, 2, 4}) {
    const auto once = lowered(one_forward_one_backward(p, 5));
    CHECK(lowered(once) == once);
  }
}

TEST_CASE("validation is lowered without a reduction", "[schedule][lower]") {
  CHECK(to_csv(lowered(forward_only(2, 1))) == "0F0,0SEND_F0\n1RECV_F0,1F0\n");
}

TEST_CASE("LOWER-1: only a sound plan is lowered", "[schedule][lower]") {
  auto x = one_forward_one_backward(2, 2);
  x.placement.pop_back();
  CHECK_BREAKS("LOWER-1", lowered(x));
  x = one_forward_one_backward(2, 2);
  x.ranks[0][0].chunk = chunk_id(2);
  CHECK_BREAKS("LOWER-1", lowered(x));
  x = one_forward_one_backward(2, 2);
  x.ranks[0].erase(x.ranks[0].begin());
  CHECK_BREAKS("LOWER-1", lowered(x));
}

TEST_CASE("lowering does not change the timing", "[schedule][lower]") {
  for (const int p : {1, 2, 4, 8})
    for (const int m : {1, 4, 9})
      for (const int queues : {0, 1, 2}) {
        auto by = shared_costs({1, 1.25, .75}, 1);
        by.transfer = .25;
        by.queues = queues;
        auto x = one_forward_one_backward(p, m);
        for (auto& row : x.ranks)
          row = with_split_backward(row);
        const auto plain = simulate(x, by), written = simulate(lowered(x), by);
        CHECK(plain.makespan == written.makespan);
        for (std::size_t r = 0; r < plain.ranks.size(); ++r) {
          CHECK(plain.ranks[r].last_end == written.ranks[r].last_end);
          CHECK(plain.ranks[r].memory == written.ranks[r].memory);
        }
      }
}

TEST_CASE("a split row has I and W for each B, and a pair has its F and the I",
          "[schedule][lower]") {
  const auto split = [](const std::vector<action>& row) { return text(with_split_backward(row)); };
  CHECK(split({of(F, 0, 0), of(B, 0, 0), of(I, 0, 1), of(W, 0, 1)}) == "0F0,0I0,0W0,0I1,0W1,");
  CHECK(split({of(F, 0, 0, true), of(B, 1, 0), of(F, 0, 1)}) == "0F0 and 1I0,1W0,0F1,");
  CHECK(split({of(B, 1, 0, true), of(F, 0, 0), of(F, 0, 1)}) == "1I0 and 0F0,1W0,0F1,");
}
