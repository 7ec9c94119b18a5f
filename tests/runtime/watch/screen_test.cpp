#include "runtime/watch/screen.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <sstream>

namespace troupe::tests {
namespace {

using namespace runtime;

run_view small_run() {
  run_view out;
  out.take_run(R"({"id":"ab","name":"small","steps":300,"layout":{"pipeline":2}})");
  for (int i = 1; i <= 100; ++i)
    out.take(fmt::format(
        R"({{"kind":"step","at":{},"iteration":{},"lm_loss":{},"grad_norm":1.25,"learning_rate":0.0006,"elapsed_ms":1000,"tokens_per_second":512}})",
        1000 + i,
        i,
        5 - i / 50.0));
  out.take(
      R"({"kind":"timeline","iteration":100,"planned_ms":10,"executed_ms":10,"bubble":0.25,"planned_bubble":0.2,"rows":[
         {"rank":0,"executed":[["0F0",0,5],["0W0",5,10]],"planned":[["0F0",0,4],["0B0",4,10]]},
         {"rank":1,"executed":[["1F0",5,7.5],["1I0",7.5,10]],"planned":[]}]})");
  return out;
}

std::vector<std::string> lines_of(const run_view& x, const screen_wish& how) {
  std::istringstream in(plain_text(draw(x, how), how));
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);)
    out.push_back(line);
  return out;
}

bool has(const std::vector<std::string>& lines, std::string_view text) {
  return std::ranges::any_of(lines,
                             [&](const auto& x) { return x.find(text) != std::string::npos; });
}

}  // namespace

TEST_CASE("the overview shows state, speed, curves, pipeline and keys in 80 x 24") {
  const auto lines = lines_of(small_run(), {.now = 1100});
  CHECK(lines.size() == 24);
  CHECK(lines[0]
        == fmt::format("{:<30}{:<31}{}", "troupe small", "training", "100/300, 3 min left"));
  CHECK(lines[1] == "loss 3.0000  norm 1.250  lr 6.00e-04  1000 ms/step  512 tokens/s");
  CHECK(has(lines, "pipeline, iteration 100: 10.0 ms (planned 10.0), bubble 25 % (planned 20 %)"));
  CHECK(has(lines, "  0 plan " + std::string(28, 'F') + std::string(43, 'B')));
  CHECK(lines.back().starts_with("1 overview"));
}

TEST_CASE("every page fits into terminals of every size") {
  auto run = small_run();
  for (int i = 0; i < 50; ++i) {
    run.take(fmt::format(
        R"({{"kind":"process","name":"node-{}","host":"kiwi","at":1100,"lanes":[{{"who":"lane:0.{}","state":"waits","for_s":20,"on":["stage:0.1"]}}]}})",
        i,
        i));
    run.take(fmt::format(R"({{"kind":"warning","at":1090,"text":"\u001b[31mtext {}"}})", i));
  }
  for (const auto page :
       {screen_page::overview, screen_page::members, screen_page::timeline, screen_page::events})
    for (const int columns : {1, 20, 40, 80, 200})
      for (const int rows : {1, 2, 5, 10, 24, 60})
        for (const int scroll : {0, 7, 1000}) {
          const screen_wish how{
              .columns = columns, .rows = rows, .page = page, .scroll = scroll, .now = 1100};
          for (const auto& x : draw(run, how)) {
            REQUIRE((x.row >= 0 && x.row < rows && x.column >= 0));
            const auto width
                = std::ranges::count_if(x.text, [](char c) { return (c & 0xc0) != 0x80; });
            REQUIRE(x.column + width <= columns);
            REQUIRE(x.text.find('\x1b') == std::string::npos);
          }
        }
}

TEST_CASE("a death, a long wait and a silent process are shown") {
  auto run = small_run();
  run.take(
      R"({"kind":"event","at":1090,"event":"restart","who":"node-1","why":"killed by signal 9","seconds":0.8})");
  run.take(
      R"({"kind":"member","at":1090,"who":"stage:0.1","state":"dead","why":"its process died"})");
  run.take(
      R"({"kind":"process","name":"node-1","host":"kiwi","at":1060,"lanes":[{"who":"lane:0.1","state":"waits","for_s":12,"on":["stage:0.0","loader"]}]})");
  run.take(R"({"kind":"state","at":1090,"state":"recovering","iteration":100})");
  const auto lines = lines_of(run, {.rows = 40, .now = 1100});
  CHECK(has(lines, "recovering: stage:0.1 is dead"));
  CHECK(has(lines, "restart    node-1: killed by signal 9; recovered after 0.8 s"));
  CHECK(has(lines, "silent for 40 s"));
  CHECK(has(lines, "waits 12.0 s on stage:0.0, loader"));
}

TEST_CASE("a slow stage is shown with the class of its cause") {
  auto run = small_run();
  run.take(
      R"({"kind":"event","at":1090,"event":"straggler","who":"stage:0.1","verdict":"link","why":"it waited"})");
  CHECK(has(lines_of(run, {.now = 1100}), "straggler  stage:0.1 (link): it waited"));
}

TEST_CASE("slow workers stay on the overview until they are fast again") {
  auto run = small_run();
  run.take(
      R"({"kind":"event","at":1090,"event":"straggler","who":"stage:0.1","verdict":"link","iteration":97,"why":"stage:0.1 (process 1 on host 'kiwi') waited for data of other ranks for 0.412 s of step 98, where 0.150 s are usual"})");
  run.take(
      R"({"kind":"event","event":"straggler","who":"stage:0.0, stage:1.0","verdict":"input","iteration":99,"why":"stage:0.0 waited"})");
  for (int i = 0; i < 50; ++i)
    run.take(R"({"kind":"warning","at":1095,"text":"the clock jumped"})");
  const auto lines = lines_of(run, {.columns = 140, .now = 1100});
  CHECK(has(lines, "stage:0.0, stage:1.0 are slow (input) since step 99: stage:0.0 waited"));
  CHECK(has(lines,
            "stage:0.1 is slow (link) since step 97, for 10 s: waited for data of other ranks for "
            "0.412 s of step 98, where 0.150 s are usual"));
  const auto small = lines_of(run, {.rows = 10, .now = 1100});
  CHECK(has(small, "(1 more) stage:0.0, stage:1.0 are slow"));
  CHECK(small.back().starts_with("1 overview"));
  run.take(
      R"({"kind":"event","at":1099,"event":"straggler","who":"stage:0.1, stage:0.0, stage:1.0","verdict":"over","iteration":100})");
  CHECK_FALSE(has(lines_of(run, {.columns = 140, .now = 1100}), " slow ("));
}

TEST_CASE("the overview shows the newest of many slow workers, and counts the others") {
  auto run = small_run();
  for (int i = 0; i < 5; ++i)
    run.take(fmt::format(
        R"({{"kind":"event","event":"straggler","who":"stage:{}.0","verdict":"link"}})", i));
  const auto lines = lines_of(run, {.now = 1100});
  CHECK(lines.size() == 24);
  CHECK(has(lines, "(2 more) stage:2.0 is slow (link)"));
  CHECK(has(lines, "stage:4.0 is slow (link)"));
  CHECK_FALSE(has(lines, "stage:1.0 is slow (link)"));
}

TEST_CASE("a run that died is shown as dead, with the reason") {
  auto run = small_run();
  run.take(R"({"kind":"end","exit_code":null,"reason":"no process is left"})");
  const auto lines = lines_of(run, {.now = 1100});
  CHECK(lines[0].find("died: no process is left") == 30);
  CHECK(lines[0].ends_with("100/300"));
}

TEST_CASE("an event without a time is shown as 'earlier'") {
  auto run = small_run();
  run.take(R"({"kind":"event","event":"restart","who":"node-1"})");
  CHECK(has(lines_of(run, {.rows = 40, .now = 1100}), "      earlier  restart    node-1"));
}

TEST_CASE("very large numbers can be drawn") {
  run_view run;
  for (const auto* value : {"1e308", "-1e308"})
    for (const int i : {1, 2, 3}) {
      const auto sign = std::string(i % 2 == 0 ? "-" : "");
      run.take(fmt::format(
          R"({{"kind":"step","at":{0},"iteration":{1},"lm_loss":{2}1e308,"grad_norm":{0},"learning_rate":{0},"elapsed_ms":{0},"tokens_per_second":{2}1e308,"teraflops_per_second":{0},"share_of_matrix_rate":{0}}})",
          value,
          i,
          sign));
      run.take(fmt::format(
          R"({{"kind":"timeline","at":{0},"iteration":1,"planned_ms":{0},"executed_ms":{0},"bubble":{0},"planned_bubble":{0},"rows":[{{"rank":0,"executed":[["0F0",-1e308,1e308],["0B0",{0},{0}]],"planned":[["0F0",1e308,-1e308]]}}]}})",
          value));
      run.take(fmt::format(
          R"({{"kind":"process","name":"node-0","pid":7,"at":{0},"cpu_s":{2}1e308,"up_s":{0},"lanes":[{{"who":"lane","state":"waits","for_s":{0},"on":["a"]}}]}})",
          value,
          i,
          sign));
      run.take(fmt::format(R"({{"kind":"member","at":{},"who":"a","state":"running"}})", value));
      run.take(fmt::format(
          R"({{"kind":"event","at":{0},"event":"restart","who":"a","seconds":{0}}})", value));
      for (const auto page : {screen_page::overview,
                              screen_page::members,
                              screen_page::timeline,
                              screen_page::events})
        for (const double now : {1100.0, 1e308, -1e308}) {
          const auto lines = lines_of(run, {.page = page, .now = now});
          CHECK(lines.size() == 24);
          CHECK_FALSE(has(lines, "inf"));
          CHECK_FALSE(has(lines, "nan"));
        }
    }
}

TEST_CASE("members are listed below their process, dead members first") {
  auto run = small_run();
  run.take(
      R"({"kind":"process","name":"node-0","role":"node","host":"kiwi","at":1100,"lanes":[{"who":"lane:0.0","state":"works","work":"0F1"}]})");
  run.take(R"({"kind":"member","at":1040,"who":"stage:0.0","state":"running","process":"node-0"})");
  run.take(
      R"({"kind":"member","at":1090,"who":"stage:0.1","state":"dead","process":"node-1","why":"killed by\nsignal 9"})");
  run.take(R"({"kind":"member","at":1040,"who":"stage:1.0","state":"running","process":"node-2"})");
  const auto lines = lines_of(run, {.page = screen_page::members, .now = 1100});
  CHECK(lines[3] == "stage:0.1      dead for 10 s: killed by signal 9");
  CHECK(lines[4] == "kiwi");
  CHECK(lines[5].starts_with("  node-0"));
  CHECK(lines[6] == "    stage:0.0      running for 1 min");
  CHECK(lines[7] == "      lane:0.0       works 0F1");
  CHECK(lines[8] == "stage:1.0      running for 1 min");
}

TEST_CASE("a process shows its services, then its replicas with stages and lanes, by number") {
  auto run = small_run();
  run.take(
      R"({"kind":"process","name":"node-0","host":"kiwi","at":1100,"lanes":[
         {"who":"lane:0.10","state":"idle","work":""},{"who":"stage:0.9","state":"waits","work":"0F1","for_s":2,"on":["lane:0.9"]},
         {"who":"lane:0.9","state":"works","work":"0F1"},{"who":"loader","state":"idle","work":""},
         {"who":"wire:0.9","state":"idle","work":"","for_s":9,"on":["stage:0.9"]}]})");
  for (const auto* who : {"stage:0.10", "replica:0", "stage:0.9"})
    run.take(fmt::format(
        R"({{"kind":"member","at":1040,"who":"{}","state":"running","process":"node-0"}})", who));
  const auto lines = lines_of(run, {.page = screen_page::members, .now = 1100});
  const std::vector<std::string> expected{
      "    loader         idle",
      "    replica:0      running for 1 min",
      "      stage:0.9      waits 2.0 s on lane:0.9 for 0F1; up for 1 min",
      "        lane:0.9       works 0F1",
      "      stage:0.10     running for 1 min",
      "        lane:0.10      idle"};
  REQUIRE(lines.size() > 5 + expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(lines[5 + i] == expected[i]);
}

TEST_CASE("a list scrolls up to its last page") {
  auto run = small_run();
  for (int i = 0; i < 50; ++i)
    run.take(fmt::format(R"({{"kind":"warning","at":1090,"text":"number {}."}})", i));
  screen_wish how{.page = screen_page::events, .now = 1100};
  how.scroll = scroll_limit(run, how);
  CHECK(how.scroll == 30);
  CHECK(has(lines_of(run, how), "number 0."));
  how.page = screen_page::overview;
  CHECK(scroll_limit(run, how) == 0);
}

TEST_CASE("the overview leaves out members that are well if not all fit") {
  auto run = small_run();
  std::string lanes;
  for (int i = 0; i < 30; ++i)
    lanes += fmt::format(R"({}{{"who":"lane:0.{}","state":"waits","for_s":{},"on":["loader"]}})",
                         i > 0 ? "," : "",
                         i,
                         i);
  run.take(R"({"kind":"process","name":"node-0","host":"kiwi","at":1100,"lanes":[)" + lanes + "]}");
  const auto lines = lines_of(run, {.now = 1100});
  CHECK(has(lines, "  node-0"));
  CHECK_FALSE(has(lines, "lane:0.9 "));
  CHECK(has(lines, "lane:0.11      waits 11.0 s on loader"));
}

TEST_CASE("a long event is whole on the page of events, and cut with a mark on the overview") {
  auto run = small_run();
  const auto text = std::string(100, 'a') + std::string(60, 'b');
  run.take(fmt::format(R"({{"kind":"warning","at":1090,"text":"{}"}})", text));
  const auto all = lines_of(run, {.page = screen_page::events, .now = 1100});
  CHECK(all[3] == "     10 s ago  warning    " + std::string(54, 'a'));
  CHECK(all[4] == std::string(26, ' ') + std::string(46, 'a') + std::string(8, 'b'));
  CHECK(all[5] == std::string(26, ' ') + std::string(52, 'b'));
  CHECK(has(lines_of(run, {.now = 1100}), std::string(53, 'a') + "…"));
  CHECK(has(lines_of(run, {.now = 1100, .ascii = true}), std::string(53, 'a') + ">"));
}

TEST_CASE("the state that the run reports is shown") {
  auto run = small_run();
  run.take(R"({"kind":"state","at":1100,"state":"validating","iteration":100})");
  CHECK(lines_of(run, {.now = 1100})[0].find("validating") == 30);
}

TEST_CASE("curves are drawn with braille dots or ASCII") {
  CHECK(text_curve({}, 10, 2, true).empty());
  CHECK(text_curve({{1, 3.0}, {2, 2.0}, {3, 1.0}}, 3, 3, true)
        == std::vector<std::string>{"** ", " **", "  *"});
  CHECK(text_curve({{1, 4.0}, {5, 0.0}}, 5, 5, true)
        == std::vector<std::string>{"**   ", " **  ", "  ** ", "   **", "    *"});
  CHECK(text_curve({{1, 1.0}, {2, 1.0}}, 2, 1, true) == std::vector<std::string>{"**"});
  CHECK(text_curve({{1, 0.0}, {2, 1.0}}, 1, 1, false).front() == "⣸");
  CHECK(text_curve({{1, 1e308}, {2, 0.0}, {3, -1e308}}, 3, 3, true)
        == std::vector<std::string>{"** ", " **", "  *"});
  constexpr double infinite = std::numeric_limits<double>::infinity();
  CHECK(text_curve({{1, NAN}, {2, infinite}}, 3, 3, true).empty());
  CHECK(text_curve({{1, NAN}, {2, 1.0}}, 2, 1, true) == std::vector<std::string>{"* "});
}

TEST_CASE("bytes are shown with a unit") {
  CHECK(bytes_text(0) == "0 B");
  CHECK(bytes_text(999) == "999 B");
  CHECK(bytes_text(1500) == "1.5 kB");
  CHECK(bytes_text(123456789) == "123 MB");
  CHECK(bytes_text(999999) == "1.0 MB");
}

}  // namespace troupe::tests
