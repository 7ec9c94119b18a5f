// Fuzzes the parsers of commands to a live run: JSON text, and words of a command line.

#include "runtime/state/run_command.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(' '), text.size());
    out.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {troupe::runtime::text_of(run_command(commands::status{})),
          troupe::runtime::text_of(run_command(commands::learning_rate{1e-4})),
          troupe::runtime::text_of(run_command(commands::log_level{"debug"})),
          troupe::runtime::text_of(run_command(commands::eval_interval{0})),
          troupe::runtime::text_of(run_command(commands::replace{"stage:0.1"})),
          troupe::runtime::text_of(run_command(commands::stop_after{100})),
          troupe::runtime::text_of(run_command(commands::trace{3})),
          "learning-rate 0.0001",
          "stop"};
}

std::vector<std::string> fuzz::dictionary() {
  std::vector<std::string> out = {"{",
                                  "}",
                                  "\"command\":",
                                  "\"rate\":",
                                  "\"steps\":",
                                  "\"step\":",
                                  "\"worker\":",
                                  "\"level\":",
                                  "null",
                                  "-1",
                                  "0",
                                  "1e999",
                                  "1e-400",
                                  "9007199254740993",
                                  "18446744073709551616",
                                  "\\u0000",
                                  "\xff",
                                  "[[[",
                                  " "};
  for (const auto name : command_names())
    out.emplace_back(name);
  return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto text = fuzz::text_of(data, size);
  fuzz::accepted([&] {
    const auto found
        = text.starts_with('{') ? read_run_command(text) : read_run_command(words_of(text));
    const auto written = troupe::runtime::text_of(found);
    fuzz::require(troupe::runtime::text_of(read_run_command(written)) == written,
                  "a round trip keeps a command");
  });
  return 0;
}
