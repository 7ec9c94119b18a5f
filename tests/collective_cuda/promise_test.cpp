// Breaks the promises of the ranks of a group on purpose.

#include "tests/support/nccl_endings.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::runtime;
using namespace troupe::tests;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

TEST_CASE(
    "COLLECTIVE-1: a rank that calls another operation is detected between devices; no rank hangs",
    "[collective][nccl][invariant]") {
  const int other = GENERATE(range(0, 3)), kind = GENERATE(range(0, 7));
  CAPTURE(other, kind);
  auto groups = groups_of({});
  std::vector<std::string> told(3);
  as_nccl_ranks(groups, 3, [&](nccl_communicator& mine, stream& stream) {
    auto x = ones(stream, 64), to = ones(stream, 64);
    const void* const part = x.raw();
    const void* const two[] = {x.raw(), x.raw()};
    const std::vector<std::int64_t> ends{4, 8, 16}, fewer{4, 8, 12}, elsewhere{4, 12, 16};
    const bool me = mine.rank() == other;
    told[std::size_t(mine.rank())] = ending([&] {
      switch (kind) {
        case 0:
          me ? mine.barrier() : mine.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.raw(), 16);
          break;
        case 1:
          mine.all_reduce_sum(stream, dtype::f32, {&part, 1}, to.raw(), me ? 15 : 16);
          break;
        case 2:
          mine.all_reduce_sum(stream, dtype::f32, std::span(two, me ? 2U : 1U), to.raw(), 16);
          break;
        case 3:
          mine.reduce_scatter_sum(stream, dtype::f32, {&part, 1}, to.raw(), me ? fewer : ends);
          break;
        case 4:
          mine.broadcast(stream, x.raw(), 64, me ? 1 : 0);
          break;
        case 5:
          mine.all_reduce_sum(stream, me ? dtype::bf16 : dtype::f32, {&part, 1}, to.raw(), 16);
          break;
        default:
          mine.all_gather(stream, x.raw(), to.raw(), me ? elsewhere : ends);
          break;
      }
      stream.finish();
      mine.barrier();  // reports errors of operations that were already enqueued
    });
  });
  for (const auto& text : told)
    CHECK_THAT(text, StartsWith("COLLECTIVE-1: along tp"));
}

TEST_CASE("COLLECTIVE-4: between devices a rank sends as much as the other expects",
          "[collective][nccl][invariant]") {
  const bool pairs = GENERATE(false, true);
  auto groups = groups_of({});
  std::vector<std::string> told(2);
  as_nccl_ranks(groups, 2, [&](nccl_communicator& mine, stream& stream) {
    auto from = ones(stream, 8), to = ones(stream, 8);
    const std::vector<std::int64_t> bytes{4, 8}, too_few{3, 7};
    told[std::size_t(mine.rank())] = ending([&] {
      if (!pairs)
        mine.all_to_all(stream, from.raw(), bytes, to.raw(), mine.rank() == 0 ? bytes : too_few);
      else if (mine.rank() == 0)
        mine.send(stream, from.raw(), 8, 1);
      else
        mine.receive(stream, to.raw(), 7, 0);
      stream.finish();
      mine.barrier();
    });
  });
  for (const auto& text : told)
    CHECK_THAT(
        text,
        StartsWith("COLLECTIVE-4: a rank sends as much as the other expects: along tp rank "));
}

TEST_CASE("COLLECTIVE-3: sums between devices take f32, bf16 and f16",
          "[collective][nccl][invariant]") {
  auto groups = groups_of({});
  const auto mine = make_nccl_communicator(groups, {"one", axis::data, 0, 1, 0});
  stream stream(kernels::backend::cuda, 1, {}, 0);
  auto x = ones(stream, 4);
  const void* const part = x.raw();
  CHECK_THROWS_MATCHES(mine->all_reduce_sum(stream, dtype::i32, {&part, 1}, x.raw(), 4),
                       broken_promise,
                       MessageMatches(StartsWith("COLLECTIVE-3")));
}
