// Fuzzes files of hosts.

#include "runtime/launch/hosts.hpp"
#include "tests/fuzz/fuzz.hpp"

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

std::string text_of(const std::vector<launch_host>& hosts) {
  std::string out;
  for (const auto& x : hosts) {
    const bool is_address = x.name.find(':') != std::string::npos;
    out += x.user.empty() ? "" : x.user + "@";
    out += is_address ? "[" + x.name + "]" : x.name;
    out += x.slots > 0 ? fmt::format(" slots={}", x.slots) : "";
    out += x.max_slots > 0 ? fmt::format(" max_slots={}\n", x.max_slots) : "\n";
  }
  return out;
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {"# two hosts\ngpu001 slots=4 max_slots=8\nuser@gpu002 slots=4\n",
          "a\na\nb # twice\n",
          "[fd00::3] max-slots=2\r\n10.0.0.2\n"};
}

std::vector<std::string> fuzz::dictionary() {
  return {
      " slots=", " max_slots=", "@", "[::1]", "[::ffff:10.0.0.1]", "#", "\n", "4096", "4097", "="};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    const auto hosts = hosts_in_file(fuzz::text_of(data, size), "hosts");
    fuzz::require(hosts_in_file(text_of(hosts), "written") == hosts, "hosts survive a round trip");
  });
  return 0;
}
