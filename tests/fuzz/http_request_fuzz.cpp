// HTTP-2: fuzzes the bytes that a client sends to a session of the HTTP server, on a socket pair.
// Handlers must get only complete, well-formed requests, and all answers must be HTTP.

#include "runtime/http/session.hpp"
#include "tests/fuzz/fuzz.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <optional>
#include <sys/socket.h>
#include <unistd.h>

using namespace troupe::runtime;
using namespace troupe::tests;

namespace {

constexpr std::size_t most_header = 4096, most_body = 8192;

/// Number of requests that handlers got for one input.
std::size_t handled = 0;

bool is_printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char x) { return x >= ' ' && x != 127; });
}

void check(const http::request& x) {
  ++handled;
  fuzz::require(x.path.starts_with('/') && is_printable(x.path), "a path is decoded");
  fuzz::require((x.path + "/").find("/../") == std::string::npos
                    && (x.path + "/").find("/./") == std::string::npos,
                "a path stays below its folder");
  for (const auto& [name, value] : x.query)
    fuzz::require(!name.empty() && is_printable(name) && is_printable(value), "a query is decoded");
  for (const auto& [name, value] : x.headers)
    fuzz::require(std::ranges::none_of(name, [](char c) { return c >= 'A' && c <= 'Z'; })
                      && value.find_first_of("\r\n") == std::string::npos,
                  "a header is one line with a lower-case name");
  fuzz::require(x.body.size() <= most_body, "a body is within the limit");
}

class two_parts final : public http::body_source {
 public:
  std::optional<std::string> next() override {
    return ++given_ <= 2 ? std::optional<std::string>("part\n") : std::nullopt;
  }

 private:
  int given_ = 0;
};

void answer(const std::shared_ptr<http::exchange>& x) {
  check(x->asked());
  x->answer({.body = "{}"});
}

const std::shared_ptr<http::room>& room() {
  static const auto made = [] {
    http::settings how;
    how.limits.header_bytes = most_header;
    how.limits.body_bytes = most_body;
    return std::make_shared<http::room>(
        std::vector<http::server::route>{{http::method::get, "/", answer},
                                         {http::method::get, "/page/", answer},
                                         {http::method::get,
                                          "/api/lines",
                                          [](const std::shared_ptr<http::exchange>& x) {
                                            check(x->asked());
                                            x->stream({.type = "application/x-ndjson"},
                                                      std::make_unique<two_parts>());
                                          }},
                                         {http::method::post, "/api/command", answer}},
        how);
  }();
  return made;
}

/// Reads and returns all bytes that the client has received.
std::string received(int client) {
  std::string out;
  std::array<char, 4096> part{};
  for (ssize_t count = 0; (count = ::read(client, part.data(), part.size())) > 0;)
    out.append(part.data(), std::size_t(count));
  return out;
}

void run_all(int client, std::string& read) {
  room()->io.restart();
  while (room()->io.poll() > 0)
    read += received(client);
  read += received(client);
}

}  // namespace

std::vector<std::string> fuzz::seeds() {
  return {"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
          "GET /page/a%20b?x=1&y=%C3%A9&z HTTP/1.1\r\nHost: 127.0.0.1:7000\r\nAccept: a\r\nAccept: "
          "b\r\nConnection: close\r\n\r\n",
          "POST /api/command HTTP/1.1\r\nHost: [::1]:7000\r\nOrigin: http://[::1]:7000\r\n"
          "Authorization: Bearer 00ff\r\nContent-Length: 19\r\n\r\n{\"command\":\"pause\"}",
          "POST /api/command HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
          "4;a=b\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\nTrailer: x\r\n\r\n",
          "POST /api/command HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
          "Content-Length: 2\r\n\r\n{}",
          "GET /api/lines?after=1:17 HTTP/1.1\r\nHost: localhost\r\n\r\n"
          "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.0\r\n\r\n"};
}

std::vector<std::string> fuzz::dictionary() {
  return {"\r\n",
          "\r\n\r\n",
          "\n",
          "\r",
          std::string(1, '\0'),
          " HTTP/1.1",
          " HTTP/1.0",
          " HTTP/2.0",
          "HEAD ",
          "PUT ",
          "OPTIONS * ",
          "CONNECT a:1 ",
          "Content-Length: 0\r\n",
          "Content-Length: 18446744073709551615\r\n",
          "Content-Length: -1\r\n",
          "Transfer-Encoding: chunked\r\n",
          "Transfer-Encoding: identity\r\n",
          "Expect: 100-continue\r\n",
          "Upgrade: websocket\r\nConnection: upgrade\r\n",
          "Host: evil\r\n",
          "Origin: null\r\n",
          "ffffffffffffffff\r\n",
          "0\r\n\r\n",
          "%2e%2e/",
          "/../",
          "%00",
          "%",
          "//",
          "http://localhost/",
          "\xff",
          std::string(600, 'a')};
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::accepted([&] {
    handled = 0;
    std::array<int, 2> ends{};
    fuzz::require(
        ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0,
        "a socket pair");
    const int client = ends[0];
    http::start_session(
        room(),
        http::stream_socket(room()->io, http::asio::generic::stream_protocol(AF_UNIX, 0), ends[1]),
        {.peer = "local", .is_local = true});
    std::string read;
    auto rest = fuzz::text_of(data, size);
    while (!rest.empty()) {
      const auto count = ::send(client, rest.data(), rest.size(), MSG_NOSIGNAL);
      if (count < 0 && errno != EAGAIN)
        break;  // the server has closed the connection
      rest.remove_prefix(std::size_t(std::max<ssize_t>(count, 0)));
      const auto before = room()->open.load();
      run_all(client, read);
      if (count < 0 && room()->open == before)
        break;  // the server no longer reads
    }
    ::shutdown(client, SHUT_WR);
    run_all(client, read);
    ::close(client);
    room()->end_sessions();
    room()->io.restart();
    room()->io.poll();
    fuzz::require(room()->open == 0, "a session ends with its connection");
    fuzz::require(read.empty() || read.starts_with("HTTP/1.1 ") || read.starts_with("HTTP/1.0 "),
                  "an answer is HTTP");
    if (handled == 0)
      throw input_error("no request");
  });
  return 0;
}
