// The process at the other end of a wire, for tests. The test kills it.
//
//   transport_peer hold N          leases one tensor of N numbers and prints its address
//   transport_peer lend N          like hold; processes of this host may read the tensor in place
//   transport_peer hang ADDRESS N  requests the first tensor of N numbers from process 1 and stops
//                                  itself with SIGSTOP when the bytes are about to arrive

#include "runtime/transport/ucx_wire.hpp"
#include "runtime/transport/wire_transport.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <string>
#include <unistd.h>

using namespace troupe::runtime;

namespace {

constexpr generation_id now{1};

int hold(std::int64_t n, bool lends) {
  wire_transport by({.process = 2, .shares_memory = lends}, [](wire_owner& owner) {
    return make_ucx_wire(owner, settings_without_secret());
  });
  memory_pool pool;
  tensor x(pool.allocate(std::size_t(n) * sizeof(std::int32_t)), dtype::i32, {n});
  std::iota(x.data<std::int32_t>(), x.data<std::int32_t>() + n, 0);
  by.deposit(x, now);
  std::printf("%s\n", by.address().where.c_str());
  std::fflush(stdout);
  for (;;)
    ::pause();
}

class stops_at_once final : public wire_owner {
 public:
  landing arrived(peer_number, std::span<const std::byte>, std::size_t) override {
    std::printf("stopping\n");
    std::fflush(stdout);
    std::raise(SIGSTOP);
    return {};
  }
  void lost(peer_number, const std::string& why) override {
    std::fprintf(stderr, "transport_peer: lost: %s\n", why.c_str());
  }
};

int hang(const std::string& address, std::int64_t n) {
  stops_at_once owner;
  const auto by = make_ucx_wire(owner, settings_without_secret());
  by->start();
  const ticket what{1, 1, now, dtype::i32, {n}};
  by->send(by->connect(address),
           {bytes_of(wire_message{
                .what = what, .fetch = 1, .begin = 0, .end = std::uint64_t(n) * 4, .asker = 2}),
            {},
            nullptr});
  for (;;)
    ::pause();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string verb = argc > 1 ? argv[1] : "";
  if ((verb == "hold" || verb == "lend") && argc == 3)
    return hold(std::atoll(argv[2]), verb == "lend");
  if (verb == "hang" && argc == 4)
    return hang(argv[2], std::atoll(argv[3]));
  std::fprintf(stderr, "transport_peer: hold N, lend N, or hang ADDRESS N\n");
  return 2;
}
