#include "runtime/watch/run_view.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <fmt/format.h>

namespace troupe::tests {

using runtime::run_view;

TEST_CASE("a view ignores what it does not know, and counts what is no record") {
  run_view x;
  for (const auto* text : {"", "{}", R"({"kind":"new kind"})", R"({"kind":7})", R"({"kind":"step","iteration":"5"})",
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

TEST_CASE("curves are bounded: older halves are thinned, the newest points stay") {
  run_view x;
  for (int i = 1; i <= 20000; ++i)
    x.take(fmt::format(R"({{"kind":"step","iteration":{},"lm_loss":1.5}})", i));
  CHECK(x.losses.size() <= run_view::most_points);
  CHECK(x.losses.back().iteration == 20000);
  CHECK(x.losses[x.losses.size() - 2].iteration == 19999);
}

TEST_CASE("a loss that is not finite is no point of the curve") {
  run_view x;
  x.take(R"({"kind":"step","iteration":1,"lm_loss":null})");
  CHECK(x.losses.empty());
  CHECK(std::isnan(x.loss));
}

TEST_CASE("another run begins a new view; the same run keeps it") {
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

TEST_CASE("the share of a core is that between two samples of one process") {
  run_view x;
  x.take(R"({"kind":"process","name":"node-0","pid":7,"at":100,"cpu_s":10})");
  CHECK(x.processes.at("node-0").cpu_share < 0);
  x.take(R"({"kind":"process","name":"node-0","pid":7,"at":102,"cpu_s":13})");
  CHECK(x.processes.at("node-0").cpu_share == 1.5);
  x.take(R"({"kind":"process","name":"node-0","pid":8,"at":103,"cpu_s":0.1})");
  CHECK(x.processes.at("node-0").cpu_share < 0);
}

}  // namespace troupe::tests
