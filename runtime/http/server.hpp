// A server of HTTP/1.1, with TLS if asked, on ports and Unix sockets. The only room that includes
// Boost.Beast.
//
//   HTTP-1  A client that is slow, silent, stopped or endless costs one of a bounded number of
//           connections for a bounded time, and bounded memory. No other client waits for it.
//   HTTP-2  Handlers get only complete, well-formed requests.
//   HTTP-3  A page of another site cannot use a browser's access. A request is refused if its
//           Origin is another server, or if its Host is not an address, localhost or a name of the
//           settings (DNS rebinding).

#pragma once

#include "runtime/http/message.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime::http {

struct limits {
  std::size_t header_bytes = 16 << 10;  ///< request line and headers
  std::size_t body_bytes = 1 << 20;
  /// Connections of ports, and of Unix sockets; more are closed at once. Strangers at a port leave
  /// room for processes of this user.
  std::size_t connections = 128;
  std::size_t local_connections = 128;
  std::chrono::milliseconds receive{10'000};  ///< for one whole request, and for a TLS handshake
  std::chrono::milliseconds idle{60'000};     ///< until the next request of a connection
  /// For one part of an answer, and a second more for each 16 KiB of it.
  std::chrono::milliseconds send{10'000};
};

/// Where a server listens. One of the two.
struct endpoint {
  std::string address = "127.0.0.1";  ///< numeric
  std::uint16_t port = 0;             ///< 0: the system chooses
  std::filesystem::path folder = {};  ///< not empty: a Unix socket of this name in this folder,
  std::string name = {};              ///< for processes of this user
};

/// PEM texts.
struct server_certificate {
  std::string chain, key;
};

/// The body of an answer that is sent while it grows. The server's thread makes all calls, also to
/// the destructor, which runs when all was sent or the client is gone.
class body_source {
 public:
  virtual ~body_source() = default;
  /// The next part. Empty: nothing yet, ask again after `wake`. None: the end. Called when the
  /// parts before it were sent, so a slow client gets fewer and never has a queue here. Must not
  /// block.
  virtual std::optional<std::string> next() = 0;
};

/// A request that waits for its answer. Any thread. Destroyed without an answer: the client gets
/// 500.
class exchange {
 public:
  virtual ~exchange() = default;
  virtual const request& asked() const = 0;
  /// Only the first answer counts. After the client or the server is gone: does nothing.
  virtual void answer(response x) = 0;
  /// `head` without a body, then what `source` gives. The function asks `source` for its next part;
  /// any thread may call it, at any time, also after the end.
  virtual std::function<void()> stream(response head, std::unique_ptr<body_source> source) = 0;
};

/// Called on the server's thread; must not block. An exception is answered with 500, an input_error
/// with 400 and its text.
using handler = std::function<void(std::shared_ptr<exchange>)>;

struct settings {
  http::limits limits = {};
  std::optional<server_certificate> tls = {};  ///< for ports; a Unix socket has none
  std::vector<std::string> names = {};         ///< further names of this host
  /// All streams are woken at this interval; 0: only by their functions.
  std::chrono::milliseconds pulse{0};
  std::string product = "troupe";  ///< header `Server`
};

/// Serves on a thread of its own, which sleeps while no client speaks.
class server {
 public:
  /// Handlers by method and path; a longer path that ends in '/' serves all below it. HEAD is
  /// answered from GET. Other paths get 404, other methods 405.
  struct route {
    http::method method = http::method::get;
    std::string path;
    handler answers;
  };

  /// Listens when the constructor returns. Throws io_error when an endpoint cannot be opened: with
  /// the port, and what to do when it is taken; input_error for a wrong certificate.
  server(const std::vector<endpoint>& at, std::vector<route> routes, http::settings how = {});
  /// Closes all connections and ends the thread.
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Bound ports in the order of the endpoints; 0 for a Unix socket.
  const std::vector<std::uint16_t>& ports() const;
  std::size_t connections() const;  ///< open now; any thread
  std::uint64_t refused() const;    ///< connections beyond the limit, so far; any thread

 private:
  class parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::runtime::http
