#include "runtime/telemetry/record_ring.hpp"

#include <catch2/catch_test_macros.hpp>
#include <thread>

namespace troupe::tests {
namespace {

using runtime::record_position;
using runtime::record_ring;

void add_steps(record_ring& to, int first, int last) {
  for (int i = first; i <= last; ++i)
    to.add("step", [i] { return std::to_string(i); });
}

std::vector<std::string> texts(const record_ring::pulled& x) {
  std::vector<std::string> out;
  for (const auto& one : x.records)
    out.push_back(one.text);
  return out;
}

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("WATCH-2: a viewer gets each record once, in order") {
  record_ring ring(3, 4);
  add_steps(ring, 0, 2);
  const auto first = ring.since({3, 0}, 2, 1000);
  CHECK(texts(first) == lines{"0", "1"});
  CHECK(first.next == record_position{3, 2});
  add_steps(ring, 3, 3);
  const auto second = ring.since(first.next, 10, 1000);
  CHECK(texts(second) == lines{"2", "3"});
  CHECK(second.dropped == 0);
  const auto none = ring.since(second.next, 10, 1000);
  CHECK(none.records.empty());
  CHECK(none.next == second.next);
}

TEST_CASE("WATCH-2: a slow viewer is told how many records it missed") {
  record_ring ring(3, 4);
  add_steps(ring, 0, 9);
  const auto found = ring.since({3, 1}, 10, 1000);
  CHECK(found.dropped == 5);
  CHECK(texts(found) == lines{"6", "7", "8", "9"});
  CHECK(found.records.front().number == 6);
}

TEST_CASE("a viewer of another epoch begins with the oldest record") {
  record_ring ring(4, 8);
  add_steps(ring, 0, 1);
  const auto found = ring.since({3, 700}, 10, 1000);
  CHECK(found.other_epoch);
  CHECK(found.dropped == 0);
  CHECK(texts(found) == lines{"0", "1"});
}

TEST_CASE("a viewer with a position that was never given begins with the oldest record") {
  record_ring ring(4, 8);
  add_steps(ring, 0, 1);
  CHECK(texts(ring.since({4, 700}, 10, 1000)) == lines{"0", "1"});
}

TEST_CASE("kinds are selected, and a part is bounded in bytes") {
  record_ring ring(0);
  for (int i = 0; i < 6; ++i)
    ring.add(i % 2 == 0 ? "step" : "event", [] { return std::string(10, 'x'); });
  const auto some = ring.since({0, 0}, 10, 25, {"event"});
  CHECK(some.records.size() == 2);
  const auto rest = ring.since(some.next, 10, 25, {"event"});
  CHECK(rest.records.size() == 1);
  CHECK(rest.next == ring.end());
  CHECK(ring.since({0, 0}, 10, 1).records.size() == 1);  // never stands still at a long one
}

TEST_CASE("the text of a record is made once, by the first viewer that asks") {
  record_ring ring(0);
  int made = 0;
  ring.add("step", [&made] {
    ++made;
    return std::string("x");
  });
  CHECK(made == 0);
  ring.since({0, 0}, 1, 100, {"event"});
  CHECK(made == 0);
  ring.since({0, 0}, 1, 100);
  ring.since({0, 0}, 1, 100);
  CHECK(made == 1);
}

TEST_CASE("WATCH-1: writers and viewers in several threads") {
  record_ring ring(0, 64);
  constexpr int each = 5000;
  std::vector<std::thread> writers;
  for (int w = 0; w < 2; ++w)
    writers.emplace_back([&ring] { add_steps(ring, 0, each - 1); });
  std::uint64_t seen = 0;
  record_position at{0, 0};
  while (seen < 2 * each) {
    const auto found = ring.since(at, 16, 1 << 20);
    for (std::size_t i = 0; i < found.records.size(); ++i)
      REQUIRE(found.records[i].number == found.records.front().number + i);
    seen += found.dropped + found.records.size();
    REQUIRE(found.next.next == seen);
    at = found.next;
  }
  for (auto& one : writers)
    one.join();
  CHECK(ring.end() == record_position{0, 2 * each});
}

TEST_CASE("positions as text") {
  CHECK(runtime::text_of(record_position{3, 250}) == "3:250");
  CHECK(runtime::read_record_position("3:250") == record_position{3, 250});
  for (const auto* wrong : {"", "3", "3:", ":250", "3:x", "3:250 ", "-1:2", "3:99999999999999999999"})
    CHECK_FALSE(runtime::read_record_position(wrong));
}

}  // namespace troupe::tests
