// Where hosts are reached: names, numeric addresses, and which of this host's own lead there.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace troupe::runtime {

/// "host:port" or "[::1]:port", as a user writes it.
struct host_and_port {
  std::string host;
  std::uint16_t port = 0;
};
/// Throws input_error that says what is wrong with it.
host_and_port read_host_and_port(const std::string& text);

/// Numeric: the first that the system's resolver knows. Throws input_error: it knows none. It asks
/// servers of names where a name is no number, and takes as long as they do.
std::string numeric_address(const std::string& host);

/// "0.0.0.0", "::": no address, but all that this machine has.
bool is_wildcard(const std::string& numeric);

/// Of this machine's addresses the one that the route to that one begins with. Nothing is sent.
/// Throws io_error: there is no route.
std::string own_address_towards(const std::string& numeric);

/// Whether somebody accepts a connection there, within that time. Throws io_error that says what
/// the system said.
void require_listener(const std::string& numeric,
                      std::uint16_t port,
                      std::chrono::milliseconds patience);

}  // namespace troupe::runtime
