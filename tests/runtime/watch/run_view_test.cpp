#include "runtime/watch/run_view.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstddef>
#include <fmt/format.h>
#include <string>
#include <vector>

namespace troupe::tests {

using runtime::run_view;

TEST_CASE("a view ignores unknown records, and counts texts that are not records") {
  run_view x;
  for (const auto* text : {"",
                           "{}",
                           R"({"kind":"new kind"})",
                           R"({"kind":7})",
                           R"({"kind":"step","iteration":"5"})",
                           R"({"kind":"timeline","rows":[1,{"executed":[["0F0",1],7]}]})",
                           R"({"kind":"process","lanes":3,"memory":[]})"})
    x.take(text);
  CHECK(x.unread == 0);
  for (const auto* text : {"[]", "nonsense", "\xff\xfe"})
    x.take(text);
  CHECK(x.unread == 3);
  CHECK(x.processes.empty());
}

TEST_CASE("a step that runs again replaces its point") {
  run_view x;
  for (const int i : {1, 2, 3, 2, 3})
    x.take(fmt::format(R"({{"kind":"step","iteration":{},"lm_loss":{}}})", i, i * 1.0));
  CHECK(x.losses.size() == 3);
  CHECK(x.iteration == 3);
}

TEST_CASE("curves are bounded: the older half is thinned, the newest points are kept") {
  run_view x;
  for (int i = 1; i <= 20000; ++i)
    x.take(fmt::format(R"({{"kind":"step","iteration":{},"lm_loss":1.5}})", i));
  CHECK(x.losses.size() <= run_view::most_points);
  CHECK(x.losses.back().iteration == 20000);
  CHECK(x.losses[x.losses.size() - 2].iteration == 19999);
}

TEST_CASE("a worker is slow until a record ends it, or until the run measures again") {
  run_view x;
  x.take(
      R"({"kind":"event","at":1000,"event":"straggler","who":"stage:0.0, stage:0.1","verdict":"link","why":"a queue","iteration":3})");
  REQUIRE(x.stragglers.size() == 1);
  CHECK(x.stragglers[0].who == std::vector<std::string>{"stage:0.0", "stage:0.1"});
  CHECK(x.stragglers[0].verdict == "link");
  CHECK(x.stragglers[0].why == "a queue");
  CHECK(x.stragglers[0].iteration == 3);
  CHECK(x.stragglers[0].at == 1000);
  x.take(R"({"kind":"event","event":"straggler","who":"stage:0.0","verdict":"over"})");
  REQUIRE(x.stragglers.size() == 1);
  CHECK(x.stragglers[0].who == std::vector<std::string>{"stage:0.1"});
  x.take(R"({"kind":"event","event":"straggler","who":"stage:0.1","verdict":"compute"})");
  REQUIRE(x.stragglers.size() == 1);
  CHECK(x.stragglers[0].verdict == "compute");
  x.take(R"({"kind":"event","event":"rerun","who":"step 4"})");
  CHECK(x.stragglers.size() == 1);
  for (const auto* event : {"restart", "move"}) {
    x.take(fmt::format(R"({{"kind":"event","event":"{}","who":"node-1"}})", event));
    CHECK(x.stragglers.empty());
    x.take(R"({"kind":"event","event":"straggler","who":"stage:0.1","verdict":"input"})");
    CHECK(x.stragglers.size() == 1);
  }
}

TEST_CASE("the number of slow workers is bounded: the newest are kept") {
  run_view x;
  const int many = int(run_view::most_names) + 10;
  for (int i = 0; i < many; ++i)
    x.take(fmt::format(
        R"({{"kind":"event","event":"straggler","who":"stage:{}.0","verdict":"link"}})", i));
  CHECK(x.stragglers.size() == run_view::most_names);
  CHECK(x.stragglers.back().who.front() == fmt::format("stage:{}.0", many - 1));
  for (const auto* odd : {"", ", ", ", , ,"})
    x.take(
        fmt::format(R"({{"kind":"event","event":"straggler","who":"{}","verdict":"link"}})", odd));
  CHECK(x.stragglers.size() == run_view::most_names);
}

TEST_CASE("a loss that is not finite adds no point to the curve") {
  run_view x;
  x.take(R"({"kind":"step","iteration":1,"lm_loss":null})");
  CHECK(x.losses.empty());
  CHECK(std::isnan(x.loss));
  x.take(R"({"kind":"step","iteration":2,"lm_loss":4.1,"sop_loss":null,"loss":null})");
  CHECK(x.losses.empty());  // the sum is null, whatever its parts are
  CHECK(std::isnan(x.loss));
  CHECK(x.loss_by_name.at("lm") == 4.1);
  CHECK(std::isnan(x.loss_by_name.at("sum")));
}

TEST_CASE("the view of a run that ended without an exit code says that it died") {
  run_view x;
  x.take(R"({"kind":"end","exit_code":null,"reason":"no process is left"})");
  CHECK(x.died);
  CHECK_FALSE(x.exit_code);
  CHECK(x.end_reason == "no process is left");
  run_view y;
  y.take(R"({"kind":"end","exit_code":2})");
  CHECK_FALSE(y.died);
  CHECK(y.exit_code == 2);
}

TEST_CASE("lists and texts are bounded") {
  constexpr int many = int(run_view::most_names) + 10;
  std::string axes, kinds, lanes, waits, rows;
  for (int i = 0; i < many; ++i) {
    const auto* const comma = i == 0 ? "" : ",";
    axes += fmt::format("{}\"axis {}\":1", comma, i);
    kinds += fmt::format("{}\"kind {}\":1", comma, i);
    lanes += fmt::format(R"({}{{"who":"lane {}"}})", comma, i);
    waits += fmt::format("{}\"stage {}\"", comma, i);
    rows += fmt::format(R"({}{{"rank":{}}})", comma, i);
  }
  run_view x;
  x.take_run(fmt::format(R"({{"id":"a","layout":{{{}}}}})", axes));
  x.take(
      fmt::format(R"({{"kind":"process","name":"a","memory":{{{}}},"lanes":[{{"on":[{}]}},{}]}})",
                  kinds,
                  waits,
                  lanes));
  x.take(fmt::format(R"({{"kind":"timeline","rows":[{}]}})", rows));
  CHECK(x.layout.size() == run_view::most_names);
  const auto& one = x.processes.at("a");
  CHECK(one.memory_bytes.size() == run_view::most_names);
  CHECK(one.lanes.size() == run_view::most_names);
  CHECK(one.lanes.front().on.size() == run_view::most_waits);
  REQUIRE(x.timeline);
  CHECK(x.timeline->rows.size() == run_view::most_names);

  for (std::size_t i = 0; i < run_view::most_members + 10; ++i) {
    x.take(fmt::format(R"({{"kind":"member","who":"{}","state":"ready"}})", i));
    x.take(fmt::format(R"({{"kind":"process","name":"{}"}})", i));
  }
  CHECK(x.members.size() == run_view::most_members);
  CHECK(x.processes.size() == run_view::most_members);
  x.take(R"({"kind":"member","who":"0","state":"dead"})");
  CHECK(x.members.at("0").state == "dead");  // a known member still changes

  std::string text(run_view::most_text - 1, 'a');
  x.take(fmt::format(R"({{"kind":"warning","text":"{}ä"}})", text));
  CHECK(x.events.back().text == text);  // not cut within a character
}

TEST_CASE("very large numbers give finite shares") {
  run_view x;
  x.take(R"({"kind":"process","name":"a","pid":7,"at":-1e308,"cpu_s":-1e308})");
  x.take(R"({"kind":"process","name":"a","pid":7,"at":1e308,"cpu_s":1e308})");
  CHECK(x.processes.at("a").cpu_share == -1);
}

TEST_CASE("another run resets the view; the same run keeps it") {
  run_view x;
  x.take_run(R"({"id":"a","steps":10})");
  x.take(R"({"kind":"step","iteration":5,"lm_loss":2,"elapsed_ms":100})");
  CHECK(x.seconds_left() == 0.5);
  x.take_run(R"({"id":"a","steps":10})");
  CHECK(x.losses.size() == 1);
  x.take_run(R"({"id":"b"})");
  CHECK(x.losses.empty());
  CHECK_FALSE(x.seconds_left());
}

TEST_CASE("the used cores are measured between two samples of the same process") {
  run_view x;
  x.take(R"({"kind":"process","name":"node-0","pid":7,"at":100,"cpu_s":10})");
  CHECK(x.processes.at("node-0").cpu_share < 0);
  x.take(R"({"kind":"process","name":"node-0","pid":7,"at":102,"cpu_s":13})");
  CHECK(x.processes.at("node-0").cpu_share == 1.5);
  x.take(R"({"kind":"process","name":"node-0","pid":8,"at":103,"cpu_s":0.1})");
  CHECK(x.processes.at("node-0").cpu_share < 0);
}

}  // namespace troupe::tests
