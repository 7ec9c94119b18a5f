// Numeric addresses with a port: "127.0.0.1:40123", "[::1]:40123".

#pragma once

#include <cstdint>
#include <string>
#include <sys/socket.h>

namespace troupe::runtime::ucx {

struct socket_address {
  sockaddr_storage at = {};
  socklen_t size = 0;
};

/// Throw std::runtime_error for other texts.
socket_address address_of(const std::string& host, std::uint16_t port);
socket_address address_of(const std::string& host_and_port);

std::string to_string(const sockaddr_storage& x);
/// 127.0.0.0/8 and ::1.
bool is_loopback(const sockaddr_storage& x);
/// 0.0.0.0 and ::, all addresses of this machine.
bool is_unspecified(const sockaddr_storage& x);
/// The network interface with that address, "lo" or "eth0". Throws std::runtime_error when none has
/// it.
std::string interface_of(const sockaddr_storage& x);
/// Waits up to five seconds until the interface has a link. The system reports the link of a new
/// interface up to a second late, and UCX ignores interfaces without one. Throws std::runtime_error
/// after that.
void await_link(const std::string& interface);

}  // namespace troupe::runtime::ucx
