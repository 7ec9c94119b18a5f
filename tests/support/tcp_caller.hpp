// A TCP client that sends arbitrary bytes to a port of this machine.

#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

namespace troupe::tests {

class tcp_caller {
 public:
  /// Starts to connect and does not wait.
  explicit tcp_caller(int port) : end_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in at = {};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(std::uint16_t(port));
    [[maybe_unused]] const auto said
        = ::connect(end_, reinterpret_cast<const sockaddr*>(&at), sizeof at);
  }
  explicit tcp_caller(const std::string& address)
      : tcp_caller(std::stoi(address.substr(address.rfind(':') + 1))) {}
  ~tcp_caller() { ::close(end_); }
  tcp_caller(const tcp_caller&) = delete;
  tcp_caller& operator=(const tcp_caller&) = delete;

  bool is_connected(int wait_ms) const {
    pollfd what = {end_, POLLOUT, 0};
    return ::poll(&what, 1, wait_ms) == 1 && (what.revents & (POLLERR | POLLHUP)) == 0;
  }
  void say(const std::string& bytes) const {
    is_connected(60'000);
    [[maybe_unused]] const auto sent = ::send(end_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  /// Receives at least n bytes, or all until the other side closes the connection.
  std::string hear(std::size_t n) const {
    std::string out;
    char bytes[4096];
    while (out.size() < n) {
      pollfd what = {end_, POLLIN, 0};
      ::poll(&what, 1, 60'000);
      const auto got = ::recv(end_, bytes, sizeof bytes, 0);
      if (got <= 0)
        break;
      out.append(bytes, std::size_t(got));
    }
    return out;
  }
  /// Waits until the other side closes the connection. False after a timeout that only a hang
  /// reaches.
  bool is_hung_up() const {
    char bytes[4096];
    for (;;) {
      pollfd what = {end_, POLLIN, 0};
      if (::poll(&what, 1, 60'000) != 1)
        return false;
      if (::recv(end_, bytes, sizeof bytes, 0) <= 0)
        return true;
    }
  }

 private:
  const int end_;
};

}  // namespace troupe::tests
