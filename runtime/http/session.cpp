#include "runtime/http/session.hpp"

#include "runtime/core/error.hpp"
#include "runtime/http/request_reader.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/chunk_encode.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/serializer.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>
#include <type_traits>
#include <utility>

namespace troupe::runtime::http {
namespace {

namespace wire = boost::beast::http;
using boost::beast::buffers_to_string;
using boost::system::error_code;

/// Maximum bytes of pipelined requests that are buffered while one is answered.
constexpr std::size_t most_ahead = 64 << 10;
/// Time for a client to close the connection after its last answer. If the server closed it while
/// the client still sends, the client could lose the answer.
constexpr auto patience_with_leave = std::chrono::seconds(1);
constexpr int slices_of_timeout = 5;
constexpr std::size_t bytes_per_second = 16 << 10;  ///< minimum rate at which a client must read

/// Header value with control characters replaced, so that it cannot begin a new header.
std::string one_line(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char x) { return x < ' ' || x == 127; }, ' ');
  return text;
}

template <class Body>
void fill(wire::response<Body>& out, const response& x, const settings& how) {
  out.result(unsigned(x.status));
  out.set(wire::field::server, how.product);
  out.set(wire::field::content_type, one_line(x.type));
  out.set(wire::field::cache_control, "no-store");
  out.set("Referrer-Policy", "no-referrer");
  out.set("X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : x.headers)
    out.set(name, one_line(value));
}

template <class Stream>
class connection final : public session, public std::enable_shared_from_this<connection<Stream>> {
 public:
  connection(const std::shared_ptr<room>& in, Stream stream, const caller& who)
      : room_(in), stream_(std::move(stream)), who_(who), timer_(in->io) {
    ++room_->open_of(who_);
  }
  ~connection() override { --room_->open_of(who_); }

  void start() {
    allow(room_->how.limits.receive);
    if constexpr (is_tls)
      stream_.async_handshake(asio::ssl::stream_base::server,
                              bound([](connection& x, const error_code& failed) {
                                failed ? x.close() : x.await_request();
                              }));
    else
      await_request();
  }

  void close() override {
    if (std::exchange(stage_, stage::closed) == stage::closed)
      return;
    has_client = false;
    drop_source();
    timer_.cancel();
    error_code ignored;
    stream_.lowest_layer().close(ignored);
    self_.reset();  // the caller has this object, too
  }

  void answer(std::uint64_t number, response x) override {
    if (number != number_ || stage_ != stage::waiting)
      return;
    const auto self = std::move(self_);
    stage_ = stage::sending;
    const auto length = x.body.size();
    answer_.emplace();
    fill(*answer_, x, room_->how);
    keeps_ = keeps_ && x.status != unauthorized && x.status != forbidden;
    answer_->keep_alive(keeps_);
    answer_->version(version_);
    if (x.status == not_modified) {
      // It has no body, and its length would be that of the file (RFC 9110, 8.6).
    } else if (is_head_) {
      answer_->content_length(length);
    } else {
      answer_->body() = std::move(x.body);
      answer_->prepare_payload();
    }
    allow_for(length);
    wire::async_write(
        stream_, *answer_, bound([](connection& me, const error_code& failed, std::size_t) {
          me.answer_.reset();
          failed ? me.close() : me.end_request();
        }));
  }

  void stream(std::uint64_t number, response head, std::unique_ptr<body_source> source) override {
    if (number != number_ || stage_ != stage::waiting)
      return;
    const auto self = std::move(self_);
    stage_ = stage::streaming;
    source_ = std::move(source);
    room_->begin_stream();
    is_chunked_ = version_ >= 11;
    keeps_ = keeps_ && is_chunked_;
    head_.emplace();
    fill(*head_, head, room_->how);
    head_->version(version_);
    head_->keep_alive(keeps_);
    head_->chunked(is_chunked_);
    head_writer_.emplace(*head_);
    sends_ = true;
    allow_for(0);
    wire::async_write_header(
        stream_, *head_writer_, bound([](connection& x, const error_code& failed, std::size_t) {
          x.head_writer_.reset();
          x.head_.reset();
          x.is_last_ = x.is_head_;
          x.sent_part(failed);
        }));
  }

  void wake(std::uint64_t number) override {
    if (number == number_ && stage_ == stage::streaming && !sends_)
      send_next();
  }
  void pulse() override {
    if (stage_ == stage::streaming && !sends_)
      send_next();
  }

 private:
  static constexpr bool is_tls = std::is_same_v<Stream, tls_stream>;
  // A client without access needs a new connection for each attempt.
  static constexpr int unauthorized = 401, forbidden = 403;
  static constexpr int not_modified = 304;

  enum class stage {
    idle,       ///< between requests
    receiving,  ///< a request
    waiting,    ///< for the handler's answer
    sending,
    streaming,
    leaving,  ///< the last answer was sent
    closed
  };

  /// A completion handler that calls `work` with this object and keeps it alive until then. Does
  /// nothing after `close`. An exception closes the connection.
  template <class Work>
  auto bound(Work work) {
    return [me = this->shared_from_this(), work](const error_code& failed, auto... rest) {
      if (me->stage_ == stage::closed)
        return;
      try {
        work(*me, failed, rest...);
      } catch (const std::exception&) {
        me->close();
      }
    };
  }

  /// Restarts the timeout: closes the connection after `time`, in slices. A slice that ends late
  /// counts once: this thread may have been paused, with the client's bytes unread.
  void allow(std::chrono::milliseconds time) {
    slice_ = std::max(time / slices_of_timeout, std::chrono::milliseconds(1));
    slices_left_ = slices_of_timeout;
    wait_for_slice();
  }
  void wait_for_slice() {
    timer_.expires_after(slice_);
    timer_.async_wait(bound([wait = ++waits_](connection& x, const error_code&) {
      if (wait == x.waits_)  // otherwise the timeout was restarted or ended
        --x.slices_left_ > 0 ? x.wait_for_slice() : x.close();
    }));
  }
  void end_timeout() {
    ++waits_;
    timer_.cancel();
  }
  void allow_for(std::size_t bytes) {
    allow(room_->how.limits.send + std::chrono::seconds(bytes / bytes_per_second));
  }

  void await_request() {
    ++number_;
    reader_.begin();
    stage_ = stage::idle;
    // A stranger cannot hold a connection for long before its first request.
    allow(number_ == 1 ? room_->how.limits.receive : room_->how.limits.idle);
    parse();
  }

  // Reads in every stage, so that a closed connection is noticed. At most one read is pending.
  void read() {
    if (std::exchange(reads_, true))
      return;
    // Reads into `piece_`, because the parser may change `ahead_` while the read is pending.
    stream_.async_read_some(asio::buffer(piece_),
                            bound([](connection& x, const error_code& failed, std::size_t bytes) {
                              x.reads_ = false;
                              x.received(failed, bytes);
                            }));
  }

  void received(const error_code& failed, std::size_t bytes) {
    if (failed) {
      // A client may close its sending side after its last request.
      if (failed == asio::error::eof && (stage_ == stage::waiting || stage_ == stage::sending)) {
        keeps_ = has_client = false;
        if (stage_ == stage::waiting)
          self_ = this->shared_from_this();
        return;
      }
      return close();
    }
    ahead_.commit(asio::buffer_copy(ahead_.prepare(bytes), asio::buffer(piece_, bytes)));
    if (stage_ == stage::idle || stage_ == stage::receiving)
      return parse();
    if (stage_ == stage::leaving)
      ahead_.clear();
    if (ahead_.size() < most_ahead)
      read();
  }

  void parse() {
    if (continues_)
      return;  // resumes after "100 Continue" was sent
    if (stage_ == stage::idle && ahead_.size() > 0) {
      stage_ = stage::receiving;
      allow(room_->how.limits.receive);
    }
    if (auto no = reader_.read(ahead_))
      return refuse(*std::move(no));
    if (reader_.is_done())
      return handle();
    if (reader_.should_continue())
      return let_continue();
    read();
  }

  /// Sends "100 Continue", which the client awaits before it sends the body.
  void let_continue() {
    continues_ = true;
    head_.emplace(wire::status::continue_, 11U);
    wire::async_write(
        stream_, *head_, bound([](connection& x, const error_code& failed, std::size_t) {
          x.head_.reset();
          x.continues_ = false;
          failed ? x.close() : x.parse();
        }));
  }

  void refuse(response why) {
    keeps_ = false;
    is_head_ = false;
    version_ = 11;
    stage_ = stage::waiting;
    answer(number_, std::move(why));
  }

  void handle() {
    parsed_request x;
    if (auto no = reader_.take(x))
      return refuse(*std::move(no));
    keeps_ = x.keeps;
    version_ = x.version;
    is_head_ = x.asked.method == method::head;
    x.asked.peer = who_.peer;
    x.asked.is_local = who_.is_local;
    stage_ = stage::waiting;
    end_timeout();
    read();
    response refusal;
    const auto* found = room_->find(x.asked, refusal);
    if (found == nullptr)
      return answer(number_, std::move(refusal));
    const auto slip = make_exchange(room_, this->shared_from_this(), number_, std::move(x.asked));
    try {
      (*found)(slip);
    } catch (const input_error& failure) {
      slip->answer(error_response(400, failure.what()));
    } catch (const std::exception& failure) {
      slip->answer(error_response(500, failure.what()));
    }
  }

  void end_request() {
    if (keeps_)
      return await_request();
    stage_ = stage::leaving;
    ahead_.clear();
    allow(patience_with_leave);
    if constexpr (is_tls) {
      stream_.async_shutdown(bound([](connection& x, const error_code&) { x.drain(); }));
    } else {
      error_code ignored;
      stream_.shutdown(asio::socket_base::shutdown_send, ignored);
      read();
    }
  }

  /// Discards received bytes until the client closes the connection.
  void drain() {
    if constexpr (is_tls)
      stream_.next_layer().async_read_some(
          asio::buffer(piece_), bound([](connection& x, const error_code& failed, std::size_t) {
            failed ? x.close() : x.drain();
          }));
  }

  void send_next() {
    std::optional<std::string> next;
    try {
      next = source_->next();
    } catch (const std::exception&) {
      return close();  // the missing end shows that the answer is incomplete
    }
    if (next && next->empty())
      return;
    sends_ = true;
    is_last_ = !next;
    part_ = std::move(next).value_or(std::string());
    allow_for(part_.size());
    if (is_chunked_)  // as one buffer, and so as few TLS records as possible
      part_ = is_last_ ? buffers_to_string(wire::make_chunk_last())
                       : buffers_to_string(wire::make_chunk(asio::buffer(std::as_const(part_))));
    asio::async_write(
        stream_,
        asio::buffer(part_),
        bound([](connection& x, const error_code& failed, std::size_t) { x.sent_part(failed); }));
  }

  void sent_part(const error_code& failed) {
    sends_ = false;
    if (failed)
      return close();
    if (std::exchange(is_last_, false)) {
      drop_source();
      return end_request();
    }
    end_timeout();  // while the source has no part
    send_next();
  }

  void drop_source() {
    if (std::exchange(source_, nullptr))
      room_->end_stream();
  }

  const std::shared_ptr<room> room_;
  Stream stream_;
  const caller who_;
  asio::steady_timer timer_;
  std::chrono::milliseconds slice_{};
  int slices_left_ = 0;
  std::uint64_t waits_ = 0;          ///< number of the newest wait for a slice
  std::array<char, 8192> piece_;     ///< buffer of the pending read
  boost::beast::flat_buffer ahead_;  ///< received, not parsed yet
  request_reader reader_{room_->how.limits};
  stage stage_ = stage::idle;
  std::uint64_t number_ = 0;  ///< of the newest request
  bool reads_ = false;
  bool continues_ = false;  ///< "100 Continue" is being sent

  // The current request and its answer.
  /// Keeps this object until its answer comes, if the client has closed its sending side: then no
  /// operation is pending.
  std::shared_ptr<connection> self_;
  bool keeps_ = false, is_head_ = false;
  unsigned version_ = 11;
  std::optional<wire::response<wire::string_body>> answer_;
  std::optional<wire::response<wire::empty_body>> head_;
  std::optional<wire::response_serializer<wire::empty_body>> head_writer_;
  std::unique_ptr<body_source> source_;
  std::string part_;
  bool sends_ = false, is_last_ = false, is_chunked_ = false;
};

template <class Stream>
void begin(const std::shared_ptr<room>& in, Stream stream, const caller& who) {
  std::erase_if(in->sessions, [](const auto& x) { return x.expired(); });
  if (!in->has_room(who))
    return;  // the destructor of `stream` closes the connection
  const auto made = std::make_shared<connection<Stream>>(in, std::move(stream), who);
  in->sessions.push_back(made);
  made->start();
}

}  // namespace

void start_session(const std::shared_ptr<room>& in, stream_socket connection, const caller& who) {
  begin(in, std::move(connection), who);
}

void start_session(const std::shared_ptr<room>& in, tls_stream connection, const caller& who) {
  begin(in, std::move(connection), who);
}

}  // namespace troupe::runtime::http
