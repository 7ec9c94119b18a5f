#include "runtime/telemetry/trace.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <nlohmann/json.hpp>
#include <thread>

using namespace troupe::runtime;
using json = nlohmann::json;

namespace {

span numbered(int i) {
  return {"0F" + std::to_string(i), i % 2, step_id(1), std::uint64_t(1000 + 10 * i), 1005};
}

std::vector<std::string> names(const trace_recorder& x) {
  std::vector<std::string> out;
  for (const auto& s : x.spans())
    out.push_back(s.name);
  return out;
}

}  // namespace

TEST_CASE("a trace keeps its newest spans in order and counts dropped ones", "[telemetry]") {
  trace_recorder under_test(3);
  CHECK(under_test.spans().empty());
  for (int i = 0; i < 3; ++i)
    under_test.add(numbered(i));
  CHECK(names(under_test) == std::vector<std::string>{"0F0", "0F1", "0F2"});
  CHECK(under_test.dropped() == 0);
  for (int i = 3; i < 8; ++i) {
    under_test.add(numbered(i));
    const auto n = std::to_string(i);
    CHECK(names(under_test)
          == std::vector{"0F" + std::to_string(i - 2),
                         "0F" + std::to_string(i - 1),
                         "0F" + std::to_string(i)});
    CHECK(under_test.dropped() == std::uint64_t(i - 2));
  }
}

TEST_CASE("a trace with capacity 0 still counts", "[telemetry]") {
  trace_recorder under_test(0);
  under_test.add(numbered(0));
  CHECK(under_test.spans().empty());
  CHECK(under_test.dropped() == 1);
}

TEST_CASE("the clock of spans is monotonic, in nanoseconds", "[telemetry]") {
  const auto before = now_ns();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  CHECK(now_ns() - before >= 2'000'000);
}

TEST_CASE("a trace is written as JSON with ranks, actions, steps and times", "[telemetry]") {
  const troupe::tests::scratch_folder folder;
  trace_recorder under_test(8);
  under_test.add({"1B0", 3, step_id(5), 7'000, 9'500, 1});
  under_test.add({R"(a "quoted" name)", 0, step_id(6), 6'000, 6'000});
  under_test.write_chrome(folder / "trace.json");
  const auto written = json::parse(read_text(folder / "trace.json"));
  const auto& events = written["traceEvents"];
  REQUIRE(events.size() == 6);
  CHECK(events[0]["ph"] == "M");
  CHECK(events[0]["args"]["name"] == "rank 0");
  CHECK(events[1]["pid"] == 3);
  CHECK(events[2]["args"]["name"] == "computes");
  CHECK(events[3]["args"]["name"] == "communicates");
  CHECK(events[3]["tid"] == 1);
  CHECK(events[4]["ph"] == "X");
  CHECK(events[4]["name"] == "1B0");
  CHECK(events[4]["pid"] == 3);
  CHECK(events[4]["tid"] == 1);
  CHECK(events[4]["ts"] == 1.0);  // microseconds since the first span
  CHECK(events[4]["dur"] == 2.5);
  CHECK(events[4]["args"]["step"] == 5);
  CHECK(events[5]["name"] == R"(a "quoted" name)");
}

TEST_CASE("an empty trace is valid JSON, and a missing folder is an error", "[telemetry]") {
  const troupe::tests::scratch_folder folder;
  const trace_recorder under_test(8);
  under_test.write_chrome(folder / "trace.json");
  CHECK(json::parse(read_text(folder / "trace.json"))["traceEvents"].empty());
  CHECK_THROWS_AS(under_test.write_chrome(folder / "nowhere" / "trace.json"), io_error);
}

TEST_CASE("lanes add to a trace while another thread reads it", "[telemetry]") {
  trace_recorder under_test(64);
  std::vector<std::thread> lanes;
  for (int rank = 0; rank < 3; ++rank)
    lanes.emplace_back([&under_test, rank] {
      for (int i = 0; i < 500; ++i)
        under_test.add({"0F0", rank, step_id(std::uint64_t(i)), 0, 0});
    });
  std::size_t most = 0;
  for (int i = 0; i < 50; ++i)
    most = std::max(most, under_test.spans().size());
  for (auto& l : lanes)
    l.join();
  CHECK(most <= 64);
  CHECK(under_test.spans().size() == 64);
  CHECK(under_test.dropped() == 1500 - 64);
}
