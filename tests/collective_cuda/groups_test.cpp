// Tests of NCCL groups: sends, child communicators, registered memory, generations.

#include "kernels/op/sum.hpp"
#include "runtime/core/error.hpp"
#include "runtime/tensor/moves.hpp"
#include "tests/emulator/control.hpp"
#include "tests/support/nccl_ranks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

nccl_groups ordered_groups(std::uint64_t generation = 1,
                           std::shared_ptr<nccl_meeting> ids = std::make_shared<nccl_meeting>()) {
  return {cancel_token(), generation, collective_mode::ordered, std::move(ids)};
}

tensor four(stream& stream, float x) {
  return uploaded(stream, std::vector<float>(4, x), {4});
}

std::vector<float> sum(communicator& group, stream& stream, float mine) {
  auto x = four(stream, mine);
  const void* const part = x.raw();
  group.all_reduce_sum(stream, dtype::f32, {&part, 1}, x.raw(), 4);
  return elements_of<float>(stream, x);
}

}  // namespace

TEST_CASE("a communicator knows its axis, its rank and its size", "[collective][nccl]") {
  auto groups = ordered_groups();
  std::vector<int> seen(3);
  as_nccl_ranks(groups, 3, [&](nccl_communicator& mine, stream&) {
    ensure(mine.along() == axis::tensor, "the requested axis");
    seen[std::size_t(mine.rank())] = mine.size();
  });
  CHECK(seen == std::vector<int>{3, 3, 3});
}

TEST_CASE("sends and receives pass an activation from rank to rank", "[collective][nccl]") {
  auto groups = ordered_groups();
  std::vector<float> last;
  as_nccl_ranks(groups, 4, [&](nccl_communicator& mine, stream& stream) {
    for (int round = 0; round < 5; ++round) {
      auto x = four(stream, float(round + 1));
      if (mine.rank() > 0)
        mine.receive(stream, x.raw(), 16, mine.rank() - 1);
      stream.run(kernels::add<float>{x.data<float>(), x.data<float>(), x.data<float>(), 4});
      if (mine.rank() < 3)
        mine.send(stream, x.raw(), 16, mine.rank() + 1);
      else
        last = elements_of<float>(stream, x);
    }
  });
  CHECK(last == std::vector<float>(4, 5 * 16));
}

TEST_CASE("several arrays between two ranks arrive in the order of the call",
          "[collective][nccl]") {
  auto groups = ordered_groups();
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& stream) {
    const int peer = 1 - mine.rank();
    const auto a = four(stream, float(10 * mine.rank())),
               b = four(stream, float(10 * mine.rank() + 1));
    auto to_a = four(stream, -1), to_b = four(stream, -1);
    const nccl_send sends[] = {{a.raw(), 16, peer}, {b.raw(), 8, peer}};
    const nccl_receive receives[] = {{to_a.raw(), 16, peer}, {to_b.raw(), 8, peer}};
    mine.exchange(stream, sends, receives);
    ensure(elements_of<float>(stream, to_a) == std::vector<float>(4, float(10 * peer))
               && elements_of<float>(stream, to_b)
                      == std::vector<float>{float(10 * peer + 1), float(10 * peer + 1), -1, -1},
           "both arrived");
  });
  SUCCEED();
}

TEST_CASE("no rank leaves a barrier before all have arrived", "[collective][nccl]") {
  auto groups = ordered_groups();
  std::atomic<int> arrived = 0, early = 0;
  as_nccl_ranks(groups, 4, [&](nccl_communicator& mine, stream&) {
    for (int round = 1; round <= 10; ++round) {
      if (round % 4 == mine.rank())
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      ++arrived;
      mine.barrier();
      early += arrived < 4 * round;
      mine.barrier();
    }
  });
  CHECK(early == 0);
}

TEST_CASE("a split gives the ranks of one colour, in the order of the keys", "[collective][nccl]") {
  auto groups = ordered_groups();
  as_nccl_ranks(groups, 4, [&](nccl_communicator& mine, stream& stream) {
    const int r = mine.rank();
    const auto before = sum(mine, stream, 1);
    // Children: 2 and 0, in this order; 1 alone; none for 3.
    const auto child = mine.split(axis::data, r == 3 ? -1 : r % 2, -r);
    ensure((child == nullptr) == (r == 3), "no colour, no child");
    if (child != nullptr) {
      ensure(child->along() == axis::data && child->size() == (r == 1 ? 1 : 2)
                 && child->rank() == (r == 0 ? 1 : 0),
             "the requested split");
      const float all = r == 1 ? 2 : 4;
      ensure(sum(*child, stream, float(r) + 1) == std::vector<float>(4, all),
             "the child sums over its own");
      child->barrier();
    }
    ensure(sum(mine, stream, 1) == before, "the parent sums over all as before");
    // A second split, of all ranks, while the first child lives.
    const auto again = mine.split(axis::context, 0, r);
    ensure(again->size() == 4 && again->rank() == r
               && sum(*again, stream, 1) == std::vector<float>(4, 4),
           "split again");
    mine.barrier();  // no rank closes a child that another one still uses
  });
  SUCCEED();
}

TEST_CASE("a split waits for the enqueued operations of its rank", "[collective][nccl]") {
  emulator::set_delay(3000);  // the operation takes a while
  auto groups = ordered_groups();
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& stream) {
    auto x = four(stream, 1);
    mine.broadcast(stream, x.raw(), 16, 0);
    const auto child = mine.split(axis::data, 0, mine.rank());
    ensure(sum(*child, stream, 1) == std::vector<float>(4, 2), "the child works");
  });
  emulator::set_delay(0);
}

TEST_CASE("a group of one works without NCCL, and so do its children", "[collective][nccl]") {
  auto groups = ordered_groups();
  as_nccl_ranks(groups, 1, [&](nccl_communicator& mine, stream& stream) {
    mine.barrier();
    auto x = four(stream, 1);
    const auto held = mine.hold(x.raw(), 16);
    const auto child = mine.split(axis::data, 0, 0);
    ensure(sum(*child, stream, 3) == std::vector<float>(4, 3), "its own");
    ensure(mine.split(axis::data, -1, 0) == nullptr, "no colour, no child");
  });
  SUCCEED();
}

TEST_CASE("memory stays registered while its handle lives, at most as long as the group",
          "[collective][nccl]") {
  std::vector<std::shared_ptr<void>> outlive(2);
  {
    auto groups = ordered_groups();
    as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& stream) {
      auto x = four(stream, 1);
      const void* const part = x.raw();
      {
        const auto held = mine.hold(x.raw(), 16);
        ensure(held != nullptr, "held");
        mine.all_reduce_sum(stream, dtype::f32, {&part, 1}, x.raw(), 4);
      }
      ensure(elements_of<float>(stream, x) == std::vector<float>(4, 2), "summed");
      auto& kept = outlive[std::size_t(mine.rank())];
      kept = mine.hold(x.raw(), 16);
      mine.barrier();
    });
  }
  outlive.clear();  // no effect: the group is closed
}

TEST_CASE("successive generations in one process may use the same group names",
          "[collective][nccl]") {
  const auto ids = std::make_shared<nccl_meeting>();
  for (std::uint64_t generation = 1; generation <= 3; ++generation) {
    auto groups = ordered_groups(generation, ids);
    as_nccl_ranks(groups, 3, [&](nccl_communicator& mine, stream& stream) {
      ensure(sum(mine, stream, float(generation)) == std::vector<float>(4, 3 * float(generation)),
             "the sum of its own generation");
    });
  }
  SUCCEED();
}

TEST_CASE("ranks of other processes join by an id from a message", "[collective][nccl]") {
  auto first = ordered_groups(), second = ordered_groups();
  second.give("pair", first.id_of("pair"));
  CHECK(first.id_of("pair") == first.id_of("pair"));
  on_threads(2, [&](int r) {
    stream stream(kernels::backend::cuda, 1, {}, r);
    const auto mine = make_nccl_communicator(
        r == 0 ? first : second, {"pair", axis::data, r, 2, r, {0, 1}, {"lane:0.0", "lane:1.0"}});
    ensure(sum(*mine, stream, 1) == std::vector<float>(4, 2), "the sum of both");
  });
  SUCCEED();
}

TEST_CASE("several groups of the same ranks work in parallel", "[collective][nccl]") {
  auto groups = ordered_groups();
  on_threads(4, [&](int r) {
    stream stream(kernels::backend::cuda, 1, {}, r), wire(kernels::backend::cuda, 1, {}, r);
    const auto all = make_nccl_communicator(groups, {"all", axis::data, r, 4, r});
    const auto pair = make_nccl_communicator(
        groups, {r < 2 ? "first pair" : "second pair", axis::tensor, r % 2, 2, r});
    for (int round = 0; round < 5; ++round) {
      auto x = four(stream, 1), y = four(wire, 1);
      const void *const x_part = x.raw(), *const y_part = y.raw();
      pair->all_reduce_sum(stream, dtype::f32, {&x_part, 1}, x.raw(), 4);
      all->all_reduce_sum(wire, dtype::f32, {&y_part, 1}, y.raw(), 4);
      ensure(elements_of<float>(stream, x) == std::vector<float>(4, 2)
                 && elements_of<float>(wire, y) == std::vector<float>(4, 4),
             "each its own");
    }
  });
  SUCCEED();
}

TEST_CASE("COLLECTIVE-5: a rank's streams are on its device", "[collective][nccl][invariant]") {
  auto groups = ordered_groups();
  const auto mine = make_nccl_communicator(groups, {"one", axis::data, 0, 1, 0});
  stream elsewhere(kernels::backend::cuda, 1, {}, 1), host(kernels::backend::cpu, 1, {});
  for (auto* const stream : {&elsewhere, &host}) {
    float x = 0;
    CHECK_THROWS_MATCHES(mine->broadcast(*stream, &x, 4, 0),
                         broken_promise,
                         MessageMatches(StartsWith("COLLECTIVE-5")));
  }
}

TEST_CASE("COLLECTIVE-6: each rank of a group joins once, with the same description",
          "[collective][nccl][invariant]") {
  auto groups = ordered_groups();
  const auto mine = make_nccl_communicator(groups, {"pair", axis::data, 0, 2, 0});
  for (const auto& wrong : {nccl_member{"pair", axis::data, 0, 2, 1},
                            nccl_member{"pair", axis::data, 2, 2, 1},
                            nccl_member{"pair", axis::data, 1, 3, 1},
                            nccl_member{"pair", axis::tensor, 1, 2, 1}})
    CHECK_THROWS_MATCHES(make_nccl_communicator(groups, wrong),
                         broken_promise,
                         MessageMatches(StartsWith("COLLECTIVE-6")));
  nccl_meeting ids;
  ids.give("pair", 1, {});
  CHECK_NOTHROW(ids.give("pair", 1, {}));  // for another rank of the process
  CHECK_THROWS_MATCHES(
      ids.give("pair", 1, {{'x'}}), broken_promise, MessageMatches(StartsWith("COLLECTIVE-6")));
  CHECK_NOTHROW(ids.give("pair", 2, {}));
}

TEST_CASE("COLLECTIVE-7: sends and receives are between two ranks of a group",
          "[collective][nccl][invariant]") {
  auto groups = ordered_groups();
  const auto mine = make_nccl_communicator(groups, {"pair", axis::data, 0, 2, 0});
  stream stream(kernels::backend::cuda, 1, {}, 0);
  auto x = four(stream, 1);
  for (const int peer : {-1, 0, 2}) {
    CHECK_THROWS_MATCHES(mine->send(stream, x.raw(), 16, peer),
                         broken_promise,
                         MessageMatches(StartsWith("COLLECTIVE-7")));
    CHECK_THROWS_MATCHES(mine->receive(stream, x.raw(), 16, peer),
                         broken_promise,
                         MessageMatches(StartsWith("COLLECTIVE-7")));
  }
}
