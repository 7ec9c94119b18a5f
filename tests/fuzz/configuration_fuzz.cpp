// Fuzzes a YAML file of --config.

#include "actors/command/configuration.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  return {"# a comment\nnum-layers: 24\nswiglu: true\nlr: 1.5e-4\n",
          "rampup-batch-size: [16, 16, 5000]\ndata-path:\n  - a\n  - 'b c'\n",
          "{num_layers: 2, save: \"x\\ty\"}\n",
          "save: !!binary \"Yf8vYg==\"\ndata-path: [x, !!binary 77u/]\n",
          "save: |\n  several\n  lines\nload: >\n  folded\n"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"&a ", "*a",           "<<: *a\n", "!!int ",  "!!binary ", "~",           "null",
          ": ",  "- ",           "? ",       "\n---\n", "...",       "[[[",         "{{{",
          "'",   "\"",           "#",        "\t",      "\\x41",     "%YAML 1.2\n", "|2-",
          ">+",  "\xef\xbb\xbf", ", ",       "]",       "}",         "@",           "\xc3\xa9"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    try {
      const auto found = command::parse_configuration(std::string(fuzz::text_of(data, size)), "x");
      std::vector<command::setting> settings;
      for (const auto& entry : found.entries)
        settings.push_back({.group = "",
                            .flag = {.name = "--k" + std::to_string(settings.size()),
                                     .type = "X",
                                     .help = "",
                                     .least = entry.list ? 0 : 1,
                                     .most = entry.list ? 2 : 1,
                                     .choices = {}},
                            .words = entry.words});
      const auto again
          = command::parse_configuration(command::configuration_text(settings, {}), "y");
      fuzz::require(again.entries.size() == found.entries.size(), "a round trip keeps all keys");
      for (std::size_t i = 0; i < found.entries.size(); ++i)
        fuzz::require(again.entries[i].words == found.entries[i].words,
                      "a round trip keeps all values");
    } catch (const command::usage_error& refusal) {
      throw runtime::input_error("{}", refusal.what());
    }
  });
  return 0;
}
