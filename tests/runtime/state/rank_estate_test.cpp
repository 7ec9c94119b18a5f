// The contents of an estate over time, without a worker.

#include "runtime/state/rank_estate.hpp"

#include "runtime/device/stream.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

/// An estate filled and sealed by the test: arrays of four equal numbers.
struct by_hand {
  memory_pool pool;
  rank_estate estate{"stage 1 of replica 0"};

  by_hand() {
    estate.allot(parts(), parts());
    estate.seal(5, {});
  }
  rank_estate::chunks parts() {
    const auto array = [&] {
      tensor out(pool.allocate(16), dtype::f32, {4});
      std::fill_n(out.data<float>(), 4, 1.0F);
      return out;
    };
    return {{chunk_id(0), {{array(), array()}, {{0, 4}}}}};
  }
};

}  // namespace

TEST_CASE_METHOD(by_hand, "an estate holds the previous state until the next update", "[estate]") {
  CHECK(estate.newest() == iteration_range{5, 5});
  estate.skip(6);
  CHECK(estate.newest() == iteration_range{5, 6});
  CHECK(estate.holds(6));
  estate.begin_update();
  CHECK(estate.newest() == iteration_range{5, 6});
  estate.seal(7, {.own = {{"a", {1, 2}}}});
  CHECK(estate.newest() == iteration_range{7, 7});
  for (const std::uint64_t n : {5, 6, 7})
    CHECK(estate.holds(n));
  CHECK(estate.digests(7).own.size() == 1);
  CHECK(estate.digests(6).own.empty());
  estate.begin_update();
  CHECK_FALSE(estate.holds(6));
  CHECK(estate.holds(7));
  CHECK(estate.bytes().all() == 64);
}

TEST_CASE_METHOD(by_hand, "going back uses the other slot and forgets newer states", "[estate]") {
  const auto* const of_5 = estate.arrays(0).at(chunk_id(0)).arrays.weights.raw();
  estate.skip(6);
  estate.begin_update();
  estate.seal(7, {});
  CHECK(estate.arrays(0).at(chunk_id(0)).arrays.weights.raw() != of_5);
  estate.begin_update();  // never ends: state 5 is lost, 7 stays
  estate.go_back_to(7);
  estate.begin_update();
  estate.seal(8, {});
  estate.go_back_to(7);
  CHECK_FALSE(estate.holds(8));
  estate.skip(8);
  estate.go_back_to(7);
  CHECK(estate.newest() == iteration_range{7, 7});
}

TEST_CASE_METHOD(by_hand, "ESTATE-1: an estate is used by one worker at a time", "[estate]") {
  const auto refused = MessageMatches(StartsWith("ESTATE-1"));
  estate.enter();
  CHECK_THROWS_MATCHES(estate.enter(), broken_promise, refused);
  CHECK_THROWS_MATCHES(estate.go_back_to(5), broken_promise, refused);
  estate.leave();
  CHECK_NOTHROW(estate.go_back_to(5));
  CHECK_NOTHROW(estate.enter());
}

TEST_CASE_METHOD(by_hand,
                 "ESTATE-2: an update starts from a sealed state and ends before the next",
                 "[estate]") {
  const auto refused = MessageMatches(StartsWith("ESTATE-2"));
  rank_estate blank;
  CHECK_THROWS_MATCHES(blank.begin_update(), broken_promise, refused);
  CHECK_THROWS_MATCHES(blank.skip(1), broken_promise, refused);
  estate.begin_update();
  CHECK_THROWS_MATCHES(estate.begin_update(), broken_promise, refused);
  CHECK_THROWS_MATCHES(estate.skip(6), broken_promise, refused);
  estate.begin_anew();
  CHECK_THROWS_MATCHES(estate.begin_update(), broken_promise, refused);
  CHECK_NOTHROW(estate.seal(3, {}));
}

TEST_CASE_METHOD(by_hand,
                 "ESTATE-3: states are sealed or kept in order of iterations",
                 "[estate]") {
  const auto refused = MessageMatches(StartsWith("ESTATE-3"));
  CHECK_THROWS_MATCHES(estate.seal(6, {}), broken_promise, refused);  // no update ran
  CHECK_THROWS_MATCHES(estate.skip(5), broken_promise, refused);
  CHECK_THROWS_MATCHES(estate.skip(7), broken_promise, refused);
  estate.begin_update();
  CHECK_THROWS_MATCHES(estate.seal(5, {}), broken_promise, refused);
  CHECK_THROWS_MATCHES(estate.seal(7, {}), broken_promise, refused);
  CHECK_NOTHROW(estate.seal(6, {}));
}

TEST_CASE_METHOD(by_hand, "ESTATE-4: a requested state is in the estate", "[estate]") {
  const auto refused = MessageMatches(StartsWith("ESTATE-4"));
  stream stream(kernels::backend::cpu, 1, pool);
  CHECK_THROWS_MATCHES(estate.go_back_to(4), broken_promise, refused);
  CHECK_THROWS_MATCHES(estate.digests(6), broken_promise, refused);
  CHECK_THROWS_MATCHES(estate.copied(6, stream), broken_promise, refused);
  estate.begin_update();
  estate.seal(6, {});
  estate.begin_update();
  CHECK_THROWS_MATCHES(estate.copied(5, stream), broken_promise, refused);
}

TEST_CASE_METHOD(by_hand, "a copy of an estate is independent of later writes", "[estate]") {
  estate.skip(6);
  memory_pool others;
  std::shared_ptr<rank_estate> copy;
  {
    stream stream(kernels::backend::cpu, 1, others);
    copy = estate.copied(5, stream);
  }
  CHECK(copy->rank() == estate.rank());
  CHECK(copy->newest() == iteration_range{5, 5});
  CHECK(copy->bytes() == estate.bytes());
  estate.enter();  // the original can still be used
  auto old = estate.arrays(0).at(chunk_id(0)).arrays;
  old.weights.data<float>()[2] = old.kept.data<float>()[3] = 7;
  const auto found = copy->arrays(0).at(chunk_id(0)).arrays;
  for (int i = 0; i < 4; ++i) {
    CHECK(found.weights.data<float>()[i] == 1);
    CHECK(found.kept.data<float>()[i] == 1);
  }
  CHECK_NOTHROW(copy->enter());
}
