// Fuzzes the header of a message between transports.

#include "runtime/transport/wire_message.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cstring>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

std::string written(const wire_message& x) {
  const auto bytes = bytes_of(x);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  const ticket some{7, 3, generation_id(2), dtype::bf16, {2, 3, 5, 7}};
  const ticket nothing{7, 3, generation_id(2), dtype::f64, {0}};
  return {written({.what = some, .fetch = 9, .begin = 0, .end = 420, .asker = 8}),
          written({.verb = wire_verb::part, .what = some, .fetch = 9, .begin = 20, .end = 400}),
          written({.verb = wire_verb::refusal,
                   .reason = wire_reason::ended,
                   .what = some,
                   .fetch = 9,
                   .begin = 0,
                   .end = 420}),
          written({.verb = wire_verb::loan,
                   .what = some,
                   .fetch = 9,
                   .begin = 0,
                   .end = 420,
                   .place = {.pid = 4, .at = 3, .guard = 2, .serial = 1}}),
          written({.what = some, .fetch = 9, .begin = 0, .end = 420, .reads_on = 5}),
          written({.what = nothing})};
}

std::vector<std::string> fuzz::dictionary() {
  return {"TRPW", std::string(8, '\0'), std::string(8, '\xff'), std::string("\1\0", 2)};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const std::span header(reinterpret_cast<const std::byte*>(data), size);
    const auto read = read_message(header);
    if (const auto* const why = std::get_if<std::string>(&read))
      throw input_error("{}", *why);
    const auto& x = std::get<wire_message>(read);
    const auto again = bytes_of(x);
    fuzz::require(again.size() == size && std::memcmp(again.data(), data, size) == 0,
                  "a message survives a round trip");
    const auto all = bytes_of(x.what);
    fuzz::require(all && x.begin <= x.end && x.end <= *all && (x.begin < x.end || *all == 0),
                  "the bytes of a message lie in its tensor");
  });
  return 0;
}
