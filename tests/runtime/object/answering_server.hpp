// An HTTP server on loopback for tests, with one object: answers range requests, or never answers.

#pragma once

#include "runtime/core/thread.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdexcept>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::tests {

class answering_server {
 public:
  /// An empty `object`: the server accepts connections and never answers. Otherwise it answers
  /// `answers` requests.
  explicit answering_server(std::string object = {}, int answers = 1 << 30)
      : answers_(answers), object_(std::move(object)), socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof at;
    auto* const plain = reinterpret_cast<sockaddr*>(&at);
    if (socket_ < 0 || ::bind(socket_, plain, size) != 0 || ::listen(socket_, 8) != 0
        || ::getsockname(socket_, plain, &size) != 0)
      throw std::runtime_error("no server on loopback");
    address_ = fmt::format("http://127.0.0.1:{}", ntohs(at.sin_port));
    if (!object_.empty())
      thread_ = runtime::start_thread("server", [this] { serve(); });
  }

  ~answering_server() {
    ended_ = true;
    if (thread_.joinable())
      thread_.join();
    ::close(socket_);
  }

  const std::string& address() const { return address_; }
  int requests() const { return requests_; }

  /// Answers the next `requests` requests with 503.
  void refuse(int requests) const { refusals_ = requests; }

 private:
  void serve() {
    while (!ended_) {
      pollfd ready{socket_, POLLIN, 0};
      if (::poll(&ready, 1, 20) != 1)
        continue;
      const int from = ::accept(socket_, nullptr, nullptr);
      if (from < 0)
        continue;
      answer(from);
      ::close(from);
    }
  }

  void answer(int to) {
    std::string asked;
    char some[1024];
    while (asked.find("\r\n\r\n") == std::string::npos) {
      const auto size = ::recv(to, some, sizeof some, 0);
      if (size <= 0)
        return;
      asked.append(some, std::size_t(size));
    }
    if (++requests_ > answers_) {
      while (!ended_)
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      return;
    }
    if (refusals_ > 0) {
      --refusals_;
      const std::string_view busy
          = "HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
      [[maybe_unused]] const auto sent = ::send(to, busy.data(), busy.size(), MSG_NOSIGNAL);
      return;
    }
    std::size_t first = 0, last = 0;
    const auto at = asked.find("Range: bytes=") + 13, dash = asked.find('-', at);
    std::from_chars(asked.data() + at, asked.data() + dash, first);
    std::from_chars(asked.data() + dash + 1, asked.data() + asked.size(), last);
    last = std::min(last, object_.size() - 1);
    const auto text = fmt::format(
        "HTTP/1.1 206 Partial Content\r\nETag: \"1\"\r\nContent-Range: bytes {}-{}/{}\r\n"
        "Content-Length: {}\r\nConnection: close\r\n\r\n{}",
        first,
        last,
        object_.size(),
        last - first + 1,
        object_.substr(first, last - first + 1));
    [[maybe_unused]] const auto sent = ::send(to, text.data(), text.size(), MSG_NOSIGNAL);
  }

  int answers_;
  mutable std::atomic<int> refusals_ = 0;
  std::string object_, address_;
  int socket_;
  std::atomic<bool> ended_ = false;
  std::atomic<int> requests_ = 0;
  std::jthread thread_;
};

}  // namespace troupe::tests
