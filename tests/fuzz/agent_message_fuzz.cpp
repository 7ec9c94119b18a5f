// Fuzzes the bytes of a connection to a host agent: frames of requests.

#include "runtime/process/agent_messages.hpp"
#include "runtime/process/frames.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

std::vector<std::string> fuzz::seeds() {
  const auto framed = [](const agent_request& x) { return frame_of(text_of(x)); };
  const auto start = framed(start_process{.request = 7,
                                          .name = "node-0",
                                          .command = {"/bin/x", "a \"b\"\n"},
                                          .environment = {"A=b"},
                                          .output = "/x.log"});
  const auto signal
      = framed(signal_process{.request = 8, .name = "node-0", .which = 3, .signal = 9});
  const auto list = framed(list_processes{9});
  return {start, signal, list, framed(end_agent{10}), start + signal + list};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\"version\"",
          "\"type\"",
          "\"request\"",
          "\"name\"",
          "\"command\"",
          "\"environment\"",
          "\"output\"",
          "\"start\"",
          "\"signal\"",
          "\"list\"",
          "\"end\"",
          "\"incarnation\"",
          std::string(4, '\0'),
          std::string(4, '\xff'),
          "{",
          "[",
          "18446744073709551616"};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    frame_reader reader;
    const auto bytes = fuzz::text_of(data, size);
    // Feeds two pieces, because a frame may arrive in parts.
    for (const auto piece : {bytes.substr(0, size / 2), bytes.substr(size / 2)}) {
      reader.feed(piece);
      while (const auto text = reader.next()) {
        const auto x = read_request(*text);
        fuzz::require(read_request(text_of(x)) == x, "a request survives a round trip");
        if (const auto* const start = std::get_if<start_process>(&x))
          fuzz::require(is_process_name(start->name) && !start->command.empty(),
                        "a process has a name and a program");
      }
    }
    if (reader.is_amid())
      throw input_error("the input ends inside a message");
  });
  return 0;
}
