// Waits for the copy of a state for a checkpoint, and their end.

#include "actors/stage/snapshots.hpp"

#include "runtime/core/error.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <thread>

using namespace troupe;
using namespace troupe::actors;
using Catch::Matchers::ContainsSubstring;

namespace {

runtime::state_shard one_shard(const std::string& name, std::vector<float>& elements) {
  const runtime::shape whole{std::int64_t(elements.size())};
  return {name, whole, {{0}, whole}, elements};
}

}  // namespace

TEST_CASE("a wait for a snapshot ends when the snapshot has ended", "[stage][checkpoint]") {
  snapshot_reading reading;
  const runtime::cancel_token token;
  bool went_on = false;
  std::thread lane([&] {
    reading.wait(token);
    went_on = true;
  });
  reading.end();
  lane.join();
  CHECK(went_on);
  reading.wait(token);  // a second wait returns at once
}

// Without the token the thread would run forever, and the test into its time limit.
TEST_CASE("a wait for a snapshot ends with its generation", "[stage][checkpoint]") {
  const snapshot_reading never_over;
  const runtime::cancel_token token;
  bool was_cancelled = false;
  std::thread lane([&] {
    try {
      never_over.wait(token);
    } catch (const runtime::cancelled&) {
      was_cancelled = true;
    }
  });
  token.cancel();
  lane.join();
  CHECK(was_cancelled);
}

TEST_CASE("a snapshot of an ended generation is not copied", "[stage][checkpoint]") {
  runtime::stream by(kernels::backend::reference, 1, {});
  std::vector<float> first{1, 2, 3}, second{4};
  const std::vector arrays{one_shard("a", first), one_shard("b", second)};
  const runtime::cancel_token token;
  CHECK(copied(arrays, by, token).size() == 2);
  token.cancel();
  CHECK_THROWS_AS(copied(arrays, by, token), runtime::cancelled);
}

TEST_CASE("a snapshot that does not fit the host's memory names a remedy", "[stage][checkpoint]") {
  runtime::stream by(kernels::backend::reference, 1, {});
  std::vector<float> few{1, 2, 3};
  auto vast = one_shard("embedding.weight", few);
  // Never read: larger than any host's memory.
  vast.elements = {few.data(), std::size_t{1} << 60};
  CHECK_THROWS_WITH(copied({one_shard("a", few), vast}, by, {}),
                    ContainsSubstring("snapshot") && ContainsSubstring("'embedding.weight'")
                        && ContainsSubstring("`reduction.distributed_optimizer`")
                        && ContainsSubstring("fewer workers on this host"));
}
