// An HTTP/1.1 server on TCP ports and Unix sockets, with optional TLS on ports.
//
// A handler gets an `exchange` and answers it at once or later, from any thread. The constructor
// fails if an endpoint cannot be opened. Later errors end only the connection that has them.
//
//   HTTP-1  A slow, silent, stopped or endlessly sending client holds one of a bounded number of
//           connections, for a bounded time and with bounded memory. Other clients do not wait.
//   HTTP-2  Handlers get only complete, well-formed requests.
//   HTTP-3  Pages of other sites cannot use a browser's access. The server refuses a request whose
//           Origin is another server. It also refuses a Host that is not an address, localhost or
//           one of `settings::names` (DNS rebinding).

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

/// A time in which the server's thread does not run counts as a fifth of a timeout at most.
struct limits {
  std::size_t header_bytes = 16 << 10;  ///< request line and headers
  std::size_t body_bytes = 1 << 20;
  /// Open connections on all ports, and on all Unix sockets. Further ones are closed at once. The
  /// limits are separate: remote clients cannot use up the connections of local processes.
  std::size_t connections = 128;
  std::size_t local_connections = 128;
  std::chrono::milliseconds receive{10'000};  ///< for a complete request (the first: from the
                                              ///< connection on), and for a TLS handshake
  std::chrono::milliseconds idle{60'000};     ///< until the next request of an open connection
  /// For one part of an answer, plus one second for each 16 KiB of it.
  std::chrono::milliseconds send{10'000};
};

/// An address that a server listens at: a TCP port, or a Unix socket if `folder` is set.
struct endpoint {
  std::string address = "127.0.0.1";  ///< numeric, IPv4 or IPv6
  std::uint16_t port = 0;             ///< 0: any free port
  std::filesystem::path folder = {};  ///< folder of the Unix socket
  std::string name = {};  ///< name of the Unix socket; serves only processes of this user
};

/// Certificate chain and private key, as PEM text. One text may have both.
struct server_certificate {
  std::string chain, key;
};
/// Throws input_error if a part is missing or damaged, or the key is another certificate's.
void require_certificate(const server_certificate& x);

/// The body of an answer that is produced while it is sent. The server's thread calls `next` and
/// the destructor. The destructor runs after the last part was sent, or the connection closed.
class body_source {
 public:
  virtual ~body_source() = default;
  /// The next part of the body. An empty text: nothing yet; the server calls again after a wake-up
  /// (exchange::stream) or pulse (settings::pulse). No value: the end.
  ///
  /// The server calls it only after all earlier parts were sent. So a slow client gets fewer,
  /// newer parts, and no queue grows. Must not block.
  virtual std::optional<std::string> next() = 0;
};

/// A request that waits for its answer. Usable from any thread. The client gets status 500 if it
/// is destroyed without an answer.
class exchange {
 public:
  virtual ~exchange() = default;
  virtual const request& asked() const = 0;
  /// False after the client has closed the connection, or its sending side.
  virtual bool has_client() const = 0;
  /// Sends the answer. Later calls are ignored, and so are calls after the connection closed.
  virtual void answer(response x) = 0;
  /// Sends the headers of `head`, then the parts of `source`. Returns a wake-up function: it makes
  /// the server call `source->next()`. Any thread may call it at any time, even after the end.
  virtual std::function<void()> stream(response head, std::unique_ptr<body_source> source) = 0;
};

/// Runs on the server's thread and must not block. An input_error is answered with status 400 and
/// its text, another exception with 500 and its text.
using handler = std::function<void(std::shared_ptr<exchange>)>;

struct settings {
  http::limits limits = {};
  std::optional<server_certificate> tls = {};  ///< for ports; Unix sockets never use TLS
  std::vector<std::string> names = {};         ///< further host names that clients may use (HTTP-3)
  /// Interval at which all streams are woken. 0: only their wake-up functions wake them.
  std::chrono::milliseconds pulse{0};
  /// Niceness of the server's thread (setpriority(2)), added to that of the process.
  int niceness = 0;
  std::string product = "troupe";  ///< value of the header `Server`
};

/// Serves on its own thread, which sleeps while no client sends anything, except for timeouts.
class server {
 public:
  /// The handler of a method and path. A path that ends in '/' also serves all paths below it,
  /// except "/" itself; the longest match wins. A GET route also answers HEAD. Other paths get
  /// status 404, other methods 405.
  struct route {
    http::method method = http::method::get;
    std::string path;
    handler answers;
  };

  /// The server accepts connections when the constructor returns. Throws io_error if an endpoint
  /// cannot be opened, and input_error for an invalid address or certificate.
  server(const std::vector<endpoint>& at, std::vector<route> routes, http::settings how = {});
  /// Closes all connections and ends the thread.
  ~server();
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Bound ports, in the order of the endpoints. 0 for a Unix socket.
  const std::vector<std::uint16_t>& ports() const;
  std::size_t connections() const;  ///< open now; any thread
  std::uint64_t refused() const;    ///< connections closed by the limit so far; any thread

 private:
  class parts;
  std::unique_ptr<parts> parts_;
};

}  // namespace troupe::runtime::http
