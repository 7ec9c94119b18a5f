// One connection of a server; included by the sources of this room alone.

#pragma once

#include "runtime/http/server.hpp"

#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <list>

namespace troupe::runtime::http {

namespace asio = boost::asio;
using stream_socket = asio::generic::stream_protocol::socket;
using tls_stream = asio::ssl::stream<stream_socket>;

/// The server's thread calls everything but `answer` and `wake`.
class session {
 public:
  virtual ~session() = default;
  virtual void close() = 0;
  /// The answer to request number `request` of this connection; later ones do nothing.
  virtual void answer(std::uint64_t request, response x) = 0;
  virtual void stream(std::uint64_t request, response head, std::unique_ptr<body_source> source)
      = 0;
  virtual void wake(std::uint64_t request) = 0;
  virtual void pulse() = 0;  ///< wakes a stream
};

struct caller {
  std::string peer;
  bool is_local = false;
};

/// What all sessions of a server share.
struct room {
  room(std::vector<server::route> routes, settings how);

  void end_sessions();
  /// A stream began. Wakes all streams at each `how.pulse` from now on, until there is none.
  void begin_stream();
  void end_stream() { --streams; }
  /// The handler for a request, or the answer that refuses it.
  const handler* find(const request& x, response& refusal) const;
  /// HTTP-3.
  bool is_foreign(const request& x) const;

  asio::io_context io{1};
  const std::vector<server::route> routes;
  const settings how;
  std::list<std::weak_ptr<session>> sessions;
  std::size_t streams = 0;
  bool is_pulsing = false;
  /// False when too many connections of that kind are open; counted.
  bool has_room(const caller& who);
  std::atomic<std::size_t>& open_of(const caller& who) { return who.is_local ? open_local : open; }
  std::atomic<std::size_t> open = 0, open_local = 0;
  std::atomic<std::uint64_t> refused = 0;
  asio::steady_timer timer{io};

 private:
  void pulse();
};

void start_session(const std::shared_ptr<room>& in, stream_socket connection, const caller& who);
void start_session(const std::shared_ptr<room>& in, tls_stream connection, const caller& who);

/// Whether the other end of a Unix socket is a process of this user.
bool is_own_user(int connection);

}  // namespace troupe::runtime::http
