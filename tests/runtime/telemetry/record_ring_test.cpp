#include "runtime/telemetry/record_ring.hpp"

#include <catch2/catch_test_macros.hpp>

#include <fmt/format.h>
#include <regex>
#include <thread>

namespace troupe::tests {
namespace {

using runtime::record_ring;
using runtime::viewer_position;

void add_steps(record_ring& to, int first, int last) {
  for (int i = first; i <= last; ++i)
    to.add("step", [i] { return fmt::format("{{\"i\":{}}}", i); });
}

/// The values of the field "i".
std::vector<std::string> values(const record_ring::pulled& x) {
  std::vector<std::string> out;
  for (const auto& one : x.records)
    out.push_back(std::regex_replace(one.text, std::regex(".*\"i\":([^,}]*).*"), "$1"));
  return out;
}

record_ring::maker value(std::string x) {
  return [x = std::move(x)] { return fmt::format("{{\"i\":{}}}", x); };
}

using list = std::vector<std::string>;

}  // namespace

TEST_CASE("a record begins with its kind and time, a past record only with its kind") {
  record_ring ring(0);
  ring.add("step", value("7"));
  ring.add("empty", [] { return std::string("{}"); });
  ring.add_past("event", value("8"));
  const auto found = ring.since({0, 0}, 10, 1000);
  REQUIRE(found.records.size() == 3);
  const auto has_form = [](const std::string& text, const char* form) {
    return std::regex_match(text, std::regex(form));
  };
  CHECK(has_form(found.records[0].text, R"(\{"kind":"step","at":\d+\.\d{3},"i":7\})"));
  CHECK(has_form(found.records[1].text, R"(\{"kind":"empty","at":\d+\.\d{3}\})"));
  CHECK(found.records[2].text == R"({"kind":"event","i":8})");
}

TEST_CASE("WATCH-2: a viewer gets each record once, in order") {
  record_ring ring(3, {.facts = 4});
  add_steps(ring, 0, 2);
  const auto first = ring.since({3, 0}, 2, 1000);
  CHECK(values(first) == list{"0", "1"});
  CHECK(first.next == viewer_position{3, 2});
  add_steps(ring, 3, 3);
  const auto second = ring.since(first.next, 10, 1000);
  CHECK(values(second) == list{"2", "3"});
  CHECK(second.all_dropped() == 0);
  const auto none = ring.since(second.next, 10, 1000);
  CHECK(none.records.empty());
  CHECK(none.next == second.next);
}

TEST_CASE("WATCH-2: a slow viewer gets the number of records that it missed") {
  record_ring ring(3, {.facts = 4});
  add_steps(ring, 0, 9);
  const auto found = ring.since({3, 1}, 10, 1000);
  CHECK(found.all_dropped() == 5);
  CHECK(values(found) == list{"6", "7", "8", "9"});
  CHECK(found.records.front().number == 6);
}

TEST_CASE("WATCH-2: samples and other records are dropped separately, and counted in order") {
  record_ring ring(0, {.facts = 10, .samples = 2});
  add_steps(ring, 0, 0);
  for (int i = 1; i <= 5; ++i)
    ring.add_sample("process", "node:0", 10, value(std::to_string(i)));
  add_steps(ring, 6, 6);
  const auto all = ring.since({0, 0}, 10, 1000);
  CHECK(values(all) == list{"0", "4", "5", "6"});
  CHECK(all.all_dropped() == 3);
  CHECK(all.records[1].dropped == 3);  // counted at its position
  CHECK(all.dropped == 0);
  const auto part = ring.since({0, 0}, 2, 1000);
  CHECK(values(part) == list{"0", "4"});
  CHECK(part.all_dropped() == 3);
  CHECK(part.next == viewer_position{0, 5});
}

TEST_CASE("WATCH-2: a gap after the last selected record is reported there") {
  record_ring ring(0, {.samples = 1});
  add_steps(ring, 0, 0);
  ring.add_sample("process", "node:0", 10, value("1"));
  ring.add_sample("process", "node:0", 10, value("2"));
  const auto steps = ring.since({0, 0}, 10, 1000, {"step"});
  REQUIRE(values(steps) == list{"0"});
  CHECK(steps.records[0].dropped == 0);
  CHECK(steps.dropped == 1);
  CHECK(steps.next == ring.end());
}

TEST_CASE("WATCH-1: facts are bounded in bytes") {
  record_ring ring(0, {.fact_bytes = 1000});
  for (int i = 0; i < 5; ++i)
    ring.add("event", value(std::to_string(i)), 400);
  CHECK(values(ring.since({0, 0}, 10, 1000)) == list{"3", "4"});
}

TEST_CASE("WATCH-1: samples are bounded in bytes") {
  record_ring ring(0, {.sample_bytes = 100});
  for (int i = 0; i < 5; ++i)
    ring.add_sample("timeline", "", 40, value(std::to_string(i)));
  CHECK(values(ring.since({0, 0}, 10, 1000)) == list{"3", "4"});
  ring.add_sample("timeline", "", 1000, value("5"));
  CHECK(values(ring.since({0, 0}, 10, 1000)) == list{"5"});  // the newest record is always kept
}

TEST_CASE("a viewer with a position of another epoch begins with the oldest record") {
  record_ring ring(4);
  add_steps(ring, 0, 1);
  const auto found = ring.since({3, 700}, 10, 1000);
  CHECK(found.other_epoch);
  CHECK(found.all_dropped() == 0);
  CHECK(values(found) == list{"0", "1"});
}

TEST_CASE("a viewer with a position beyond the end begins with the oldest record") {
  record_ring ring(4);
  add_steps(ring, 0, 1);
  CHECK(values(ring.since({4, 700}, 10, 1000)) == list{"0", "1"});
}

TEST_CASE("kinds are selected, and a part is bounded in bytes") {
  record_ring ring(0);
  for (int i = 0; i < 6; ++i)
    ring.add(i % 2 == 0 ? "step" : "event", value(std::string(60, '1')));
  const auto size = ring.since({0, 0}, 1, 1000).records.front().text.size() + 1;  // of an event
  const auto some = ring.since({0, 0}, 10, 2 * size, {"event"});
  CHECK(some.records.size() == 2);
  CHECK(some.all_dropped() == 0);
  const auto rest = ring.since(some.next, 10, 2 * size, {"event"});
  CHECK(rest.records.size() == 1);
  CHECK(rest.next == ring.end());
  CHECK(ring.since({0, 0}, 10, 1).records.size() == 1);  // a longer record is returned alone
}

TEST_CASE("the text of a record is made once, at the first request") {
  record_ring ring(0);
  int made = 0;
  ring.add("step", [&made] {
    ++made;
    return std::string("{}");
  });
  CHECK(made == 0);
  ring.since({0, 0}, 1, 100, {"event"});
  CHECK(made == 0);
  ring.since({0, 0}, 1, 100);
  ring.since({0, 0}, 1, 100);
  CHECK(made == 1);
}

TEST_CASE("a new viewer gets thinned steps, all other facts, and the newest record of each key") {
  record_ring ring(0, {.facts = 1000, .samples = 2});
  add_steps(ring, 1, 100);
  ring.add("validation", value("101"));
  ring.add_newest("member", "stage:0.0", value("102"));
  ring.add_newest("member", "stage:0.1", value("103"));
  ring.add_newest("member", "stage:0.0", value("104"));
  for (int i = 105; i < 109; ++i)
    ring.add_sample("process", i == 105 ? "node:0" : "node:1", 10, value(std::to_string(i)));
  const auto found = ring.beginning(4, 100);
  CHECK(values(found) == list{"25", "50", "75", "100", "101", "103", "104", "105", "108"});
  CHECK(found.next == ring.end());
  CHECK(record_ring(7).beginning(4, 100).records.empty());
}

TEST_CASE("the first answer to a viewer is bounded in bytes: old records are left out first") {
  record_ring ring(1);
  ring.add_newest("member", "a", [] { return std::string(R"({"who":"a"})"); });
  for (int i = 0; i < 10; ++i)
    ring.add("event", [i] { return fmt::format(R"({{"i":{},"why":"{:0>200}"}})", i, 0); });
  const auto some = ring.beginning(10, 10, 1000);
  REQUIRE(some.records.size() == 4);  // the member, and three events of about 260 bytes
  CHECK(some.records.front().kind == "member");
  CHECK(some.records.back().text.find(R"("i":9)") != std::string::npos);
  CHECK(some.dropped == 7);
  CHECK(some.next == ring.end());
  CHECK(ring.beginning(10, 10, 10).records.empty());
  CHECK(ring.beginning(10, 10).records.size() == 11);
}

TEST_CASE("WATCH-1: the number of keys is bounded") {
  record_ring ring(0, {.keys = 2});
  for (const auto* key : {"a", "b", "c"})
    ring.add_newest("member", key, value(key));
  CHECK(values(ring.beginning(1, 100)) == list{"a", "b"});
  ring.add_newest("member", "b", value("d"));
  CHECK(values(ring.beginning(1, 100)) == list{"a", "d"});
}

TEST_CASE("WATCH-1: writers and viewers in several threads") {
  record_ring ring(0, {.facts = 64, .samples = 16});
  constexpr int each = 5000;
  std::vector<std::thread> writers;
  writers.emplace_back([&ring] { add_steps(ring, 0, each - 1); });
  writers.emplace_back([&ring] {
    for (int i = 0; i < each; ++i)
      ring.add_sample("process", "node:0", 10, value("0"));
  });
  std::uint64_t seen = 0, behind = 0;
  viewer_position at{0, 0};
  while (seen < 2 * each) {
    const auto found = ring.since(at, 16, 1 << 20);
    for (const auto& one : found.records) {
      REQUIRE(one.number >= behind);
      behind = one.number + 1;
    }
    seen += found.all_dropped() + found.records.size();
    REQUIRE(found.next.next == seen);
    at = found.next;
  }
  for (auto& one : writers)
    one.join();
  CHECK(ring.end() == viewer_position{0, 2 * each});
}

TEST_CASE("positions are read and written as text") {
  CHECK(runtime::text_of(viewer_position{3, 250}) == "3:250");
  CHECK(runtime::read_viewer_position("3:250") == viewer_position{3, 250});
  for (const auto* wrong :
       {"", "3", "3:", ":250", "3:x", "3:250 ", "-1:2", "3:99999999999999999999"})
    CHECK_FALSE(runtime::read_viewer_position(wrong));
}

}  // namespace troupe::tests
