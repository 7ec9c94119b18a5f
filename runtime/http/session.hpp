// One connection of an HTTP server, and the state that all connections share. Used only by the
// sources in runtime/http.

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

/// All functions run on the server's thread. An exchange posts its calls to that thread.
class session {
 public:
  virtual ~session() = default;
  virtual void close() = 0;
  /// Answers request number `request` of this connection. Ignored if that was already answered.
  virtual void answer(std::uint64_t request, response x) = 0;
  virtual void stream(std::uint64_t request, response head, std::unique_ptr<body_source> source)
      = 0;
  virtual void wake(std::uint64_t request) = 0;
  virtual void pulse() = 0;  ///< wakes the stream, if the connection has one

  std::atomic<bool> has_client = true;  ///< any thread
};

struct caller {
  std::string peer;
  bool is_local = false;
};

/// State that all sessions of a server share.
struct room {
  room(std::vector<server::route> routes, settings how);

  void end_sessions();
  /// Counts a new stream. Wakes all streams every `how.pulse` while at least one is open.
  void begin_stream();
  void end_stream() { --streams; }
  /// The handler of a request. Null if there is none: `refusal` is the answer then.
  const handler* find(const request& x, response& refusal) const;
  /// True if HTTP-3 requires a refusal.
  bool is_foreign(const request& x) const;

  asio::io_context io{1};
  const std::vector<server::route> routes;
  const settings how;
  std::list<std::weak_ptr<session>> sessions;
  std::size_t streams = 0;
  bool is_pulsing = false;
  /// False if the limit of connections is reached; counts the refusal.
  bool has_room(const caller& who);
  std::atomic<std::size_t>& open_of(const caller& who) { return who.is_local ? open_local : open; }
  std::atomic<std::size_t> open = 0, open_local = 0;
  std::atomic<std::uint64_t> refused = 0;
  asio::steady_timer timer{io};

 private:
  void pulse();
};

/// The exchange of request `number` of a session.
std::shared_ptr<exchange> make_exchange(const std::shared_ptr<room>& in,
                                        const std::shared_ptr<session>& of,
                                        std::uint64_t number,
                                        request asked);

void start_session(const std::shared_ptr<room>& in, stream_socket connection, const caller& who);
void start_session(const std::shared_ptr<room>& in, tls_stream connection, const caller& who);

/// ASCII only.
std::string lower_case(std::string_view text);

}  // namespace troupe::runtime::http
