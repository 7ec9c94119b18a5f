#include "runtime/script/monitor_script.hpp"

#include "runtime/core/error.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

using namespace troupe::runtime;
using Catch::Matchers::ContainsSubstring;

namespace {

constexpr script_limits small{10'000'000, std::size_t{4} << 20};

/// Runs a script and records its actions.
struct watched {
  std::vector<std::string> did;
  action_answer answer{true, "done so"};

  monitor_actions actions(bool has_token = true) {
    monitor_actions out;
    out.alarm = [this](const std::string& text) { did.push_back("alarm " + text); };
    if (has_token)
      out.command = [this](const std::string& text) {
        did.push_back("command " + text);
        return answer;
      };
    out.post = [this](const std::string& url, const std::string& text) {
      if (url == "nowhere")
        throw input_error("cannot post to 'nowhere'");
      did.push_back("post " + url + " " + text);
      return answer;
    };
    return out;
  }

  std::vector<std::string> after(const std::string& text,
                                 const std::vector<std::string>& records,
                                 bool has_token = true) {
    monitor_script script("mine.lua", text, actions(has_token), small);
    for (const auto& x : records)
      script.take(x);
    return std::exchange(did, {});
  }
};

using texts = std::vector<std::string>;

const std::string step
    = R"({"kind":"step","at":12.5,"iteration":7,"lm_loss":2.5,"grad_norm":null})";

/// The error text of a script when it gets the record `step`.
std::string refusal(const std::string& text, bool has_token = true) {
  try {
    watched().after(text, {step}, has_token);
  } catch (const input_error& failure) {
    return failure.what();
  }
  return "nothing";
}

}  // namespace

TEST_CASE("a script gets the fields of the records that it handles, in order", "[script]") {
  const std::string text = R"(
    local seen = 0
    function on_step(x)
      seen = seen + 1
      alarm(seen .. ": " .. x.iteration .. " " .. x.lm_loss .. " " .. tostring(x.grad_norm))
    end
    function on_event(x) alarm(x.event .. " " .. x.who .. " " .. #x.list .. x.list[2].name) end
    function on_validation(x) alarm("validation " .. x.validation_loss) end
    function on_end(x) alarm("end " .. tostring(x.exit_code) .. " " .. x.reason) end)";
  CHECK(watched().after(
            text,
            {step,
             R"({"kind":"event","event":"restart","who":"stage:0.1","list":[1,{"name":"b"}]})",
             R"({"kind":"validation","iteration":7,"validation_loss":2.25})",
             R"({"kind":"save","iteration":7})",
             "",
             "no record",
             "[1]",
             R"({"kind":7})",
             step,
             R"({"kind":"end","exit_code":null,"reason":"it died"})"})
        == texts{"alarm 1: 7 2.5 nil",
                 "alarm restart stage:0.1 2b",
                 "alarm validation 2.25",
                 "alarm 2: 7 2.5 nil",
                 "alarm end nil it died"});
}

TEST_CASE("a script can tell old records from new ones", "[script]") {
  watched by;
  monitor_script script("mine.lua",
                        "function on_step(x) alarm(x.iteration .. tostring(x.past)) end",
                        by.actions(),
                        small);
  script.take(step, true);
  script.take(step);
  CHECK(by.did == texts{"alarm 7true", "alarm 7false"});
}

TEST_CASE("a script sends commands as texts, lists and tables, and gets the answers", "[script]") {
  watched run;
  CHECK(run.after(R"(
    function on_step()
      alarm(command("pause"))
      alarm(command{"stop"})
      command{"learning_rate", rate = 1e-4}
      command{command = "trace", steps = 3}
    end)",
                  {step})
        == texts{R"(command {"command":"pause"})",
                 "alarm done so",
                 R"(command {"command":"stop"})",
                 "alarm done so",
                 R"(command {"command":"learning_rate","rate":0.0001})",
                 R"(command {"command":"trace","steps":3})"});
  run.answer = {false, "the run is paused already"};
  CHECK(
      run.after("function on_step() local x, why = command('pause') alarm(tostring(x) .. why) end",
                {step})
          .back()
      == "alarm nilthe run is paused already");
}

TEST_CASE("post sends tables as JSON", "[script]") {
  CHECK(
      watched().after(R"(
    local alarm, post = alarm, post
    function on_step(x)
      post("http://host/hook", { text = "a\"b", list = { 1, 2.5, true }, empty = {}, at = { iteration = x.iteration } })
    end)",
                      {step})
      == texts{
          R"(post http://host/hook {"at":{"iteration":7},"empty":{},"list":[1,2.5,true],"text":"a\"b"})"});
}

TEST_CASE("errors of a monitor script name its file and line", "[script]") {
  CHECK_THAT(refusal("x = 1"), ContainsSubstring("mine.lua: defines none of on_step(step)"));
  CHECK_THAT(refusal("on_step = 3"), ContainsSubstring("'on_step' is a number"));
  CHECK_THAT(refusal("function on_step("), ContainsSubstring("mine.lua:1: "));
  CHECK_THAT(refusal("function on_step(x)\n  local y = x.nothing + 1\nend"),
             ContainsSubstring("mine.lua:2: "));
  CHECK_THAT(refusal("function on_step()\n\n  post('nowhere', {})\nend"),
             ContainsSubstring("mine.lua:3: cannot post to 'nowhere'"));
  CHECK_THAT(refusal("function on_step()\n  command{'pause'}\nend", false),
             ContainsSubstring("mine.lua:2: command needs the run's control token"));
  CHECK_THAT(refusal("function on_step() command(7) end"),
             ContainsSubstring("mine.lua:1: command needs a table"));
  CHECK_THAT(refusal("function on_step() alarm() end"), ContainsSubstring("mine.lua:1: "));
  CHECK_THAT(refusal("function on_step() post('http://a', { [{}] = 1 }) end"),
             ContainsSubstring("has a key of type table"));
  CHECK_THAT(refusal("function on_step() post('http://a', { f = print }) end"),
             ContainsSubstring("JSON has no function"));
  CHECK_THAT(refusal("function on_step() local t = {} t.t = t post('http://a', t) end"),
             ContainsSubstring("nests deeper than 16 levels"));
  CHECK_THAT(refusal("function on_step() io.open('x') end"),
             ContainsSubstring("io.open is not for a monitor script"));
}

TEST_CASE("SCRIPT-BOUND: a call of a monitor script ends within its limits", "[script]") {
  CHECK_THAT(
      refusal("function on_step()\n  while true do end\nend"),
      ContainsSubstring("mine.lua:2: on_step() was stopped after the 10000000 instructions"));
  CHECK_THAT(refusal("function on_step() while true do alarm('x') end end"),
             ContainsSubstring("on_step() was stopped"));
  CHECK_THAT(refusal("function on_step() while true do command('status') end end"),
             ContainsSubstring("on_step() was stopped"));
  CHECK_THAT(refusal("function on_step() local t = {} for i = 1, 1e6 do t[i] = {} end end"),
             ContainsSubstring("KiB of memory that a monitor script has"));
  // Each call has the full limit.
  CHECK(watched().after("function on_step(x) for i = 1, 1000000 do end if x.iteration == 0 then "
                        "alarm('') end end",
                        texts(20, step))
        == texts{});
  // The interpreter stays usable after an error of an action.
  watched run;
  monitor_script script(
      "mine.lua", "function on_step(x) post('nowhere', {}) end", run.actions(), small);
  for (int i = 0; i < 1000; ++i)
    CHECK_THROWS_AS(script.take(step), input_error);
}

TEST_CASE("loss_alarm.lua reports a rise once, events, and a failed run", "[script]") {
  const auto path
      = std::filesystem::path(troupe::tests::source_dir()) / "examples/monitoring/loss_alarm.lua";
  std::ifstream in(path);
  REQUIRE(in.is_open());
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  texts records;
  for (int i = 1; i <= 60; ++i)  // falls with noise, and is 9 twice in a row
    records.push_back(fmt::format(R"({{"kind":"step","iteration":{},"lm_loss":{}}})",
                                  i,
                                  i == 50 || i == 51 ? 9.0 : 4.0 - 0.02 * i + 0.01 * (i % 3)));
  records.push_back(R"({"kind":"step","iteration":61,"lm_loss":null})");
  records.push_back(
      R"({"kind":"event","iteration":61,"event":"restart","who":"stage:0.1","why":"killed"})");
  auto failed = records;
  failed.push_back(R"({"kind":"end","exit_code":2,"reason":"the disk is full"})");
  records.push_back(R"({"kind":"end","exit_code":0,"reason":""})");
  const auto did = watched().after(text, records);
  REQUIRE(did.size() == 2);
  CHECK_THAT(did[0], ContainsSubstring("alarm iteration 50: the loss is 9.0000; the last 20 had"));
  CHECK(did[1] == "alarm iteration 61: restart of stage:0.1: killed");
  CHECK(watched().after(text, failed).back() == "alarm the run has failed: the disk is full");

  watched by;
  monitor_script attached_after_the_rise("mine.lua", text, by.actions(), small);
  for (const auto& x : records)
    attached_after_the_rise.take(x, true);
  CHECK(by.did == texts{});
}
