// WIRE-3: fuzzes the bytes of a wire connection before its peer is authenticated. The first byte
// selects the receiver: caller or listener. Nonces are fixed, so the seeds contain complete
// handshakes.

#include "runtime/transport/handshake.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <cstring>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

handshake_terms terms() {
  return {
      .secret = "secret", .run_id = "run", .build = "build", .process = 7, .address = "1.2.3.4:5"};
}

proof_bytes nonce(char of) {
  proof_bytes out;
  out.fill(of);
  return out;
}

handshake one(bool calls) {
  return calls ? handshake::calling(terms(), "1.2.3.4:5", nonce('c'), "caller's UCX")
               : handshake::answering(terms(), nonce('l'));
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  auto caller = one(true), listener = one(false);
  std::string to_listener = "l", to_caller = "c";
  for (int i = 0; i < 3; ++i) {
    const auto there = caller.take_output();
    to_listener += there;
    listener.feed(there);
    if (listener.awaits_payload())
      listener.welcome("listener's UCX");
    const auto back = listener.take_output();
    to_caller += back;
    caller.feed(back);
  }
  return {to_listener, to_caller};
}

std::vector<std::string> fuzz::dictionary() {
  return {"TRPH",
          std::string("TRPH\1\0\0\0\x20\0\0\0", 12),
          std::string("TRPH\3\0\0\0", 8),
          std::string("TRPH\6\0\0\0\0\0\0\0", 12),
          std::string(4, '\0'),
          std::string(4, '\xff')};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0)
    return 0;
  fuzz::accepted([&] {
    const bool calls = data[0] == 'c';
    auto x = one(calls);
    auto rest = fuzz::text_of(data, size).substr(1);
    // Feeds one message at a time, because each side waits for an answer.
    while (!rest.empty() && !x.has_failed() && !x.is_done()) {
      std::uint32_t announced = 0;
      if (rest.size() >= 12)
        std::memcpy(&announced, rest.data() + 8, sizeof announced);
      const auto piece = rest.substr(0, 12 + std::size_t(announced));
      x.feed(piece.substr(0, piece.size() / 2));
      x.feed(piece.substr(piece.size() / 2));
      rest.remove_prefix(piece.size());
      if (x.awaits_payload())
        x.welcome("listener's UCX");
      fuzz::require(x.take_output().size() < 2 * longest_payload, "an answer is short");
    }
    if (!x.is_done() || !rest.empty())
      throw input_error("{}", x.why());
    fuzz::require(x.payload() == (calls ? "listener's UCX" : "caller's UCX") && x.process() == 7,
                  "an authenticated payload is unchanged");
  });
  return 0;
}
