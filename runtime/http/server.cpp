#include "runtime/http/server.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/http/session.hpp"
#include "runtime/process/unix_socket.hpp"

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace troupe::runtime::http {
namespace {

using tcp = asio::ip::tcp;

/// Pause before the next accept after an error, such as too many open files.
constexpr auto pause_after_error = std::chrono::milliseconds(200);

std::string told(const tcp::endpoint& x) {
  const auto address = x.address().to_string();
  return x.address().is_v6() ? fmt::format("[{}]:{}", address, x.port())
                             : fmt::format("{}:{}", address, x.port());
}

tcp::acceptor listening(asio::io_context& io, const endpoint& at) {
  boost::system::error_code failed;
  const auto address = asio::ip::make_address(at.address, failed);
  if (failed)
    throw input_error("cannot listen at '{}': not a numeric address such as 127.0.0.1 or ::1",
                      at.address);
  const tcp::endpoint where(address, at.port);
  tcp::acceptor out(io);
  try {
    out.open(where.protocol());
    out.set_option(asio::socket_base::reuse_address(true));
    out.bind(where);
    out.listen(asio::socket_base::max_listen_connections);
  } catch (const boost::system::system_error& failure) {
    throw io_error("cannot listen at {}: {}; choose another port, or 0 for any free one",
                   told(where),
                   failure.code().message());
  }
  return out;
}

asio::ssl::context context_of(const server_certificate& x) {
  asio::ssl::context out(asio::ssl::context::tls_server);
  out.set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1
                  | asio::ssl::context::no_tlsv1_1 | asio::ssl::context::no_compression);
  try {
    out.set_password_callback([](std::size_t, auto) { return std::string(); });  // never asks
    out.use_certificate_chain(asio::buffer(x.chain));
    out.use_private_key(asio::buffer(x.key), asio::ssl::context::pem);
    if (::SSL_CTX_check_private_key(out.native_handle()) != 1)  // such as keys of two types
      throw input_error("the certificate of the server and its private key are not a pair");
  } catch (const boost::system::system_error& failure) {
    throw input_error(
        "cannot use the certificate of the server: {}; give a certificate chain and its private "
        "key as PEM, without a password",
        failure.code().message());
  }
  return out;
}

}  // namespace

void require_certificate(const server_certificate& x) {
  context_of(x);
}

class server::parts {
 public:
  parts(const std::vector<endpoint>& at, std::vector<route> routes, http::settings how)
      : room_(std::make_shared<room>(std::move(routes), std::move(how))) {
    if (room_->how.tls)
      tls_.emplace(context_of(*room_->how.tls));
    for (const auto& one : at)
      open(one);
    for (auto& one : ports_at_)
      accept(one);
    for (auto& one : sockets_)
      accept(one);
    thread_ = start_thread("http", [this] {
      if (const int more = room_->how.niceness; more > 0)  // Linux: this thread only
        ::setpriority(PRIO_PROCESS, 0, ::getpriority(PRIO_PROCESS, 0) + more);
      run();
    });
  }

  ~parts() {
    asio::post(room_->io, [this] {
      closes_ = true;
      boost::system::error_code ignored;
      for (auto& one : ports_at_)
        one.acceptor.close(ignored);
      for (auto& one : sockets_)
        one.acceptor.close(ignored);
      pause_.cancel();
      room_->end_sessions();
      work_.reset();
    });
    thread_.join();
  }

  const std::vector<std::uint16_t>& ports() const { return ports_; }
  std::size_t connections() const { return room_->open + room_->open_local; }
  std::uint64_t refused() const { return room_->refused; }

 private:
  struct port_at {
    tcp::acceptor acceptor;
    bool pauses = false;
  };
  struct socket_at {
    asio::local::stream_protocol::acceptor acceptor;
    bool pauses = false;
  };

  void open(const endpoint& at) {
    if (!at.folder.empty()) {
      auto listening = listen_in(at.folder, at.name);
      sockets_.push_back({{room_->io, asio::local::stream_protocol(), listening.release()}});
      ports_.push_back(0);
      return;
    }
    ports_at_.push_back({listening(room_->io, at)});
    ::fcntl(ports_at_.back().acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
    ports_.push_back(ports_at_.back().acceptor.local_endpoint().port());
  }

  void run() {
    for (;;) {
      try {
        room_->io.run();
        return;
      } catch (const std::exception& failure) {  // of one session; the others continue
        log_warning("http: {}", failure.what());
      }
    }
  }

  void accept(port_at& from) {
    from.acceptor.async_accept(
        [this, &from](const boost::system::error_code& failed, tcp::socket socket) {
          if (go_on(from, failed))
            begin(std::move(socket));
        });
  }
  void begin(tcp::socket socket) {
    boost::system::error_code failed;
    const auto peer = socket.remote_endpoint(failed);
    if (failed || !room_->has_room({}))
      return;  // closed by the client, or beyond the limit
    socket.set_option(tcp::no_delay(true), failed);
    prepare(socket.native_handle());
    const auto who = caller{.peer = told(peer), .is_local = false};
    if (tls_)
      start_session(room_, tls_stream(stream_socket(std::move(socket)), *tls_), who);
    else
      start_session(room_, stream_socket(std::move(socket)), who);
  }

  /// Detects dead peers by TCP keepalive. Child processes do not inherit the socket.
  static void prepare(int socket) {
    constexpr int seconds = 30, yes = 1;
    constexpr unsigned milliseconds = seconds * 1000;
    ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
    ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
    ::fcntl(socket, F_SETFD, FD_CLOEXEC);
  }

  void accept(socket_at& from) {
    from.acceptor.async_accept([this, &from](const boost::system::error_code& failed,
                                             asio::local::stream_protocol::socket socket) {
      if (!go_on(from, failed) || user_of_peer(socket.native_handle()) != ::geteuid())
        return;
      ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
      start_session(room_, stream_socket(std::move(socket)), {.peer = "local", .is_local = true});
    });
  }

  /// True if a connection was accepted. Also accepts the next one; after an error it pauses first.
  template <class From>
  bool go_on(From& from, const boost::system::error_code& failed) {
    if (closes_ || failed == asio::error::operation_aborted)
      return false;
    if (!failed) {
      accept(from);
      return true;
    }
    from.pauses = true;
    pause_.expires_after(pause_after_error);
    pause_.async_wait([this](const boost::system::error_code& cancelled) {
      if (!cancelled && !closes_)
        accept_again();
    });
    return false;
  }
  void accept_again() {
    const auto each = [this](auto& all) {
      for (auto& one : all)
        if (std::exchange(one.pauses, false))
          accept(one);
    };
    each(ports_at_);
    each(sockets_);
  }

  const std::shared_ptr<room> room_;  ///< an exchange may keep it after this object ends
  std::optional<asio::ssl::context> tls_;
  std::vector<port_at> ports_at_;
  std::vector<socket_at> sockets_;
  std::vector<std::uint16_t> ports_;
  bool closes_ = false;  ///< used only by the server's thread
  asio::steady_timer pause_{room_->io};
  asio::executor_work_guard<asio::io_context::executor_type> work_{room_->io.get_executor()};
  std::jthread thread_;
};

server::server(const std::vector<endpoint>& at, std::vector<route> routes, http::settings how)
    : parts_(std::make_unique<parts>(at, std::move(routes), std::move(how))) {}

server::~server() = default;

const std::vector<std::uint16_t>& server::ports() const {
  return parts_->ports();
}

std::size_t server::connections() const {
  return parts_->connections();
}

std::uint64_t server::refused() const {
  return parts_->refused();
}

}  // namespace troupe::runtime::http
