// Sockets that lose long packets: the system drops them before it acknowledges them, like a path
// that loses packets above its limit without a report.

#pragma once

#include <array>
#include <cstdint>
#include <linux/filter.h>
#include <stdexcept>
#include <sys/socket.h>

namespace troupe::tests {

/// Drops the socket's later TCP packets that are longer, header included. Sockets that it
/// accepts inherit this.
inline void drop_packets_above(int socket, std::uint32_t bytes) {
  std::array<sock_filter, 4> program{{{BPF_LD | BPF_W | BPF_LEN, 0, 0, 0},
                                      {BPF_JMP | BPF_JGT | BPF_K, 0, 1, bytes},
                                      {BPF_RET | BPF_K, 0, 0, 0},
                                      {BPF_RET | BPF_K, 0, 0, 0xffffffff}}};
  const sock_fprog filter{std::uint16_t(program.size()), program.data()};
  if (::setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) != 0)
    throw std::runtime_error("a socket cannot drop packets here");
}

constexpr std::uint32_t longest_tcp_header = 60;

}  // namespace troupe::tests
