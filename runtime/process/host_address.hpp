// Addresses of hosts: parsing, name resolution, and this host's address on a route.

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
/// Throws input_error with a reason.
host_and_port read_host_and_port(const std::string& text);

/// The first numeric address that the system's resolver returns. May wait for name servers. Throws
/// input_error when there is none.
std::string numeric_address(const std::string& host);

/// True for "0.0.0.0" and "::", which stand for all addresses of this machine.
bool is_wildcard(const std::string& numeric);

/// True for 127.0.0.0/8 and ::1, which other hosts cannot reach.
bool is_loopback(const std::string& numeric);

/// The address of a network interface of this machine, such as "eth0"; IPv4 first. Throws
/// input_error with the names of all interfaces that have one.
std::string address_of_interface(const std::string& name);

/// An address by which other hosts reach this one: that of the default route, else the only one
/// that is not loopback, else 127.0.0.1. Throws input_error when there are several.
std::string address_of_this_host();

/// This machine's source address on the route to `numeric`. Sends nothing. Throws io_error when
/// there is no route.
std::string own_address_towards(const std::string& numeric);

/// Checks that a connection is accepted there within `patience`. Throws io_error with the system's
/// reason.
void require_listener(const std::string& numeric,
                      std::uint16_t port,
                      std::chrono::milliseconds patience);

}  // namespace troupe::runtime
