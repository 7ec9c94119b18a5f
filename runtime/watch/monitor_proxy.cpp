#include "runtime/watch/monitor_proxy.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/thread.hpp"
#include "runtime/object/object_url.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/watch/page_routes.hpp"
#include "runtime/watch/part_queue.hpp"
#include "runtime/watch/viewer_token.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::runtime {
namespace {

using asked_by = std::shared_ptr<http::exchange>;

constexpr std::size_t most_requests = 32;  ///< at once, including streams; each has a thread
constexpr std::size_t longest_passed_answer = 16 << 20;
constexpr std::size_t most_ahead = 1 << 20;  ///< bytes of a stream that wait for the browser
constexpr auto patience_with_answer = std::chrono::seconds(30);
/// A run answers a command between two steps.
constexpr auto patience_with_command = std::chrono::seconds(600);

/// Path and query for the hub, without the token. A browser that reconnects sends its position in a
/// header.
std::string target_of(const http::request& x) {
  auto query = x.query;
  query.erase("token");
  if (const auto at = x.header("last-event-id"); !at.empty())
    query["after"] = at;
  auto out = x.path;
  for (const auto& [name, value] : query)
    out += (out.size() == x.path.size() ? "?" : "&") + percent_encoded(name) + "="
           + percent_encoded(value);
  return out;
}

/// PROXY-4. The address of the hub may belong to another service. The proxy therefore sets the
/// type, and forbids the browser to load or run anything.
http::response passed_on(int status, const char* type, std::string body = {}) {
  return {.status = status,
          .type = type,
          .body = std::move(body),
          .headers = {{"Content-Security-Policy", "default-src 'none'"}}};
}

http::response answer_of_hub(const http::request& asked, http::response x) {
  if (x.status == 401 || x.status == 403)  // the hub refused the proxy's token, not the browser's
    return http::error_response(
        502,
        "the run refuses the read token: start `troupe monitor` again, with a copy of 'read.token' "
        "in the run's folder as the token file");
  const bool is_text = asked.path == "/metrics" && x.status == 200;
  return passed_on(
      x.status, is_text ? "text/plain; version=0.0.4" : "application/json", std::move(x.body));
}

/// One thread per running request. Used by the server's thread.
class request_threads {
 public:
  /// Returns false if too many requests run. Throws as start_thread.
  bool start(std::function<void()> work) {
    std::erase_if(all_, [](const auto& x) { return x->is_done.load(); });
    if (all_.size() >= most_requests)
      return false;
    auto one = std::make_unique<request_thread>();
    one->thread = start_thread("web", [at = one.get(), work = std::move(work)] {
      work();
      at->is_done = true;
    });
    all_.push_back(std::move(one));
    return true;
  }

 private:
  struct request_thread {
    std::atomic<bool> is_done = false;
    std::jthread thread;
  };
  std::vector<std::unique_ptr<request_thread>> all_;
};

}  // namespace

class monitor_proxy::parts {
 public:
  parts(const http::endpoint& at, hub_address hub)
      : hub_(std::move(hub)), token_(new_token() + new_token()) {
    http::settings how;
    how.limits.body_bytes = 64 << 10;  // commands
    server_.emplace(std::vector{at}, routes(), how);
  }
  ~parts() {
    stops_ = true;
    server_.reset();  // ends the streams that threads may wait for
  }

  std::uint16_t port() const { return server_->ports().front(); }
  const std::string& token() const { return token_; }

 private:
  using work = std::function<void(const asked_by& x)>;

  std::vector<http::server::route> routes() {
    auto out = page_routes();
    for (const auto* path : {"/api/run", "/api/state", "/api/records", "/metrics"})
      out.push_back(
          {http::method::get, path, on_thread([this](const asked_by& x) { pass_answer(x); })});
    out.push_back({http::method::get, "/api/events", on_thread([this](const asked_by& x) {
                     pass_stream(x, "text/event-stream", "retry: 1000\n\n");
                   })});
    out.push_back({http::method::get, "/api/lines", on_thread([this](const asked_by& x) {
                     pass_stream(x, "application/x-ndjson", "");
                   })});
    out.push_back({http::method::post, "/api/command", on_thread([this](const asked_by& x) {
                     pass_command(x);
                   })});
    return out;
  }

  /// PROXY-1.
  http::handler on_thread(work does) {
    return [this, does = std::move(does)](const asked_by& x) {
      if (!gives_viewer_token(x->asked(), token_))
        return x->answer(http::error_response(
            401, "this page needs its token: open the link that `troupe monitor` printed"));
      if (!threads_.start([x, does] { answer_or_explain(x, does); }))
        x->answer(http::error_response(
            503,
            fmt::format("{} requests run already; close other pages of this run", most_requests)));
    };
  }

  static void answer_or_explain(const asked_by& x, const work& does) {
    try {
      does(x);
    } catch (const std::exception& failure) {
      x->answer(http::error_response(
          503,
          fmt::format(
              "cannot reach the run: {}; if it has ended, `troupe monitor DIR` shows its end",
              failure.what())));
    }
  }

  /// Uses `follow`, which can be cancelled: the proxy can end while the run hangs.
  http::response ask(http::client& hub, const std::string& target) const {
    std::string body;
    bool is_late = false;
    const auto since = std::chrono::steady_clock::now();
    auto out = hub.follow(
        target,
        [&](std::string_view part) {
          body += part;
          return body.size() <= longest_passed_answer;
        },
        [&] {
          is_late = std::chrono::steady_clock::now() - since > patience_with_answer;
          return !is_late && !stops_;
        });
    if (is_late || stops_ || body.size() > longest_passed_answer)
      throw io_error("cannot read {}: no complete answer within {} s and {} bytes",
                     target,
                     patience_with_answer.count(),
                     longest_passed_answer);
    if (out.body.empty())
      out.body = std::move(body);
    return out;
  }

  void pass_answer(const asked_by& x) const {
    http::client hub(hub_());
    x->answer(answer_of_hub(x->asked(), ask(hub, target_of(x->asked()))));
  }

  /// Begins the stream when the hub's headers arrive, so a refusal of the hub keeps its status.
  void pass_stream(const asked_by& x, const char* type, std::string_view beginning) const {
    http::client hub(hub_());
    std::shared_ptr<part_queue> parts;  // empty until the hub has answered
    const auto since = std::chrono::steady_clock::now();
    const auto begin = [&] {
      parts = std::make_shared<part_queue>(most_ahead);
      parts->on_part(x->stream(passed_on(200, type), body_of(parts)));
      parts->put(beginning);
    };
    const auto goes_on = [&] {
      const bool is_late = std::chrono::steady_clock::now() - since > patience_with_answer;
      return !stops_ && (parts ? !parts->is_closed() : !is_late);
    };
    try {
      auto refusal = hub.follow(
          target_of(x->asked()),
          [&](std::string_view part) { return parts->put(part); },
          goes_on,
          begin);
      if (!parts && refusal.status == 0)
        throw io_error(
            "cannot read {}: no answer within {} s", x->asked().path, patience_with_answer.count());
      if (!parts)
        x->answer(answer_of_hub(x->asked(), std::move(refusal)));
    } catch (const std::exception&) {
      if (!parts)
        throw;
      // The browser reconnects after the end of the stream, and gets the reason as an answer.
    }
    if (parts)
      parts->end();
  }

  void pass_command(const asked_by& x) const {
    const auto& asked = x->asked();
    if (!asked.header("content-type").starts_with("application/json"))
      return x->answer(http::error_response(415, "a command must have the type application/json"));
    auto at = hub_();
    at.token = bearer_token(asked);
    http::client hub(at);
    const auto since = std::chrono::steady_clock::now();
    const auto goes_on = [&] {
      return !stops_ && std::chrono::steady_clock::now() - since < patience_with_command;
    };
    try {
      auto out = hub.post("/api/command", asked.body, "application/json", goes_on);
      x->answer(passed_on(out.status, "application/json", std::move(out.body)));
    } catch (const cancelled&) {
      x->answer(http::error_response(
          504,
          fmt::format("the run has not answered within {} s; it may still take the command",
                      patience_with_command.count())));
    }
  }

  const hub_address hub_;
  const std::string token_;
  std::atomic<bool> stops_ = false;
  request_threads threads_;
  std::optional<http::server> server_;
};

monitor_proxy::monitor_proxy(const http::endpoint& at, hub_address hub)
    : parts_(std::make_unique<parts>(at, std::move(hub))) {}

monitor_proxy::~monitor_proxy() = default;

std::uint16_t monitor_proxy::port() const {
  return parts_->port();
}

const std::string& monitor_proxy::token() const {
  return parts_->token();
}

}  // namespace troupe::runtime
