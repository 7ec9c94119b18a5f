// A TCP client for tests of servers: sends any bytes and reads the answers.

#pragma once

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>
#include <utility>

namespace troupe::tests {

class raw_client {
 public:
  explicit raw_client(std::uint16_t port)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval bound{60, 0};  // long: only a hang reaches it
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    if (socket_ < 0 || ::connect(socket_, reinterpret_cast<sockaddr*>(&at), sizeof at) != 0) {
      ::close(socket_);
      throw std::runtime_error("no connection to the server");
    }
  }
  ~raw_client() { ::close(socket_); }
  raw_client(const raw_client&) = delete;
  raw_client& operator=(const raw_client&) = delete;

  /// False if the server has closed the connection.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0)
        return false;
      bytes.remove_prefix(std::size_t(sent));
    }
    return true;
  }

  /// Reads until `end` has arrived. Returns the text up to and including it; keeps the rest. Throws
  /// if the server closes the connection before, or is silent. An empty `end`: reads until the
  /// server closes the connection.
  std::string until(std::string_view end = {}) {
    for (std::size_t searched = 0;;) {
      if (const auto at = end.empty() ? std::string::npos : kept_.find(end, searched);
          at != std::string::npos) {
        const auto out = kept_.substr(0, at + end.size());
        kept_.erase(0, out.size());
        return out;
      }
      char bytes[4096];
      const auto size = ::recv(socket_, bytes, sizeof bytes, 0);
      if (size <= 0 && !end.empty())
        throw std::runtime_error("'" + std::string(end)
                                 + "' did not come, but: " + kept_.substr(0, 1000));
      if (size <= 0)
        return std::exchange(kept_, {});
      searched = kept_.size() - std::min(kept_.size(), end.size());
      kept_.append(bytes, std::size_t(size));
    }
  }

  /// Closes the sending side; the client can still read.
  void end_of_requests() { ::shutdown(socket_, SHUT_WR); }

  /// Reads until the server closes the connection; false if it does not.
  bool is_closed_by_server() {
    char bytes[4096];
    ssize_t size = 0;
    do
      size = ::recv(socket_, bytes, sizeof bytes, 0);
    while (size > 0);
    return size == 0 || errno != EAGAIN;
  }

 private:
  int socket_;
  std::string kept_;
};

}  // namespace troupe::tests
