// Fuzzes the view of a run. The first line is the answer of /api/run, the others are records.

#include "runtime/watch/run_view.hpp"
#include "runtime/watch/screen.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {
      R"({"id":"a","name":"small","program":"troupe 1","host":"kiwi","steps":300,"layout":{"pipeline":2},"started_at":1}
{"kind":"state","at":1,"state":"training","iteration":0}
{"kind":"step","at":2,"iteration":1,"lm_loss":4.5,"grad_norm":1.25,"elapsed_ms":10,"tokens_per_second":512,"bubble":0.2}
{"kind":"step","at":3,"iteration":2,"lm_loss":null,"grad_norm":null}
{"kind":"validation","at":3,"iteration":2,"validation_loss":4.75}
{"kind":"validation","at":3,"iteration":2,"test_loss":4.75}
{"kind":"end","at":9,"exit_code":0,"reason":"done"})",
      R"({"id":"b"}
{"kind":"process","at":1,"name":"node-0","role":"node","pid":17,"ranks":[0,1],"memory":{"idle":5},"sent":[{"peer":"x","bytes":7}],"lanes":[{"who":"lane:0.0","state":"waits","work":"0F1","on":["x"],"for_s":0.5}],"device":{"name":"H100","power_w":300}}
{"kind":"member","at":1,"who":"stage:0.1","state":"dead","process":"node-0","why":"killed"}
{"kind":"timeline","at":2,"iteration":3,"planned_ms":5,"executed_ms":6,"rows":[{"rank":0,"executed":[["0F0",0,1.5]],"planned":[["0F0",0,1]]}]}
{"kind":"event","at":2,"iteration":3,"event":"restart","who":"stage:0.1","seconds":0.5,"state_from":"keeper"}
{"kind":"save","at":3,"iteration":3,"state":"written","seconds":1}
{"kind":"command","at":3,"name":"pause"}
{"kind":"warning","at":3,"text":"a warning"}
{"kind":"dropped","count":7})"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\n",
          "null",
          "-1",
          "1e308",
          "-1e308",
          "[]",
          "{}",
          "[[[[",
          "\"",
          "\\u001b",
          "\xff",
          "\"at\":",
          "\"id\":",
          "\"kind\":",
          "\"rows\":",
          "\"lanes\":",
          "\"ranks\":",
          "18446744073709551615",
          "\"iteration\":",
          "\"left\""};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  auto text = fuzz::text_of(data, size);
  fuzz::accepted([&] {
    run_view view;
    const auto first = std::min(text.find('\n'), text.size());
    view.take_run(text.substr(0, first));
    text.remove_prefix(std::min(first + 1, text.size()));
    while (!text.empty()) {
      const auto end = std::min(text.find('\n'), text.size());
      view.take(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    fuzz::require(view.losses.size() <= run_view::most_points
                      && view.events.size() <= run_view::most_events
                      && view.counts.events.size() <= run_view::most_names + 1,
                  "a view is bounded");
    for (const auto page : {screen_page::overview,
                            screen_page::members,
                            screen_page::timeline,
                            screen_page::events}) {
      screen_wish how;
      how.page = page;
      how.keys.clear();
      const auto shown = plain_text(draw(view, how), how);
      fuzz::require(std::ranges::all_of(
                        shown, [](unsigned char c) { return c == '\n' || (c >= ' ' && c != 127); }),
                    "control characters of records are not shown");
    }
    if (view.unread > 0)
      throw input_error("{} texts are not records", view.unread);
  });
  return 0;
}
