#include "runtime/watch/hub.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/watch/page_routes.hpp"
#include "runtime/watch/viewer_token.hpp"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

namespace troupe::runtime {
namespace {

using clock = std::chrono::steady_clock;
using http::exchange;
using http::request;
using http::response;

constexpr std::size_t most_records = 1000;  // of one part or answer
constexpr std::size_t most_steps_at_first = 1000, most_others_at_first = 2000,
                      most_bytes_at_first = 2 << 20;
constexpr std::size_t most_kinds = 32;
/// Interval of keep-alive lines on a quiet stream. They let both ends detect a lost connection.
constexpr auto still_there = std::chrono::seconds(10);

/// The records that a request selects.
struct selection {
  viewer_position from;
  std::vector<std::string> kinds;
  std::size_t most = most_records;
};

std::size_t read_count(const std::string& name, const std::string& text, std::size_t most) {
  std::size_t out = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (failed != std::errc() || end != text.data() + text.size() || out == 0 || out > most)
    throw input_error("'{}={}': give a number from 1 to {}", name, text, most);
  return out;
}

std::vector<std::string> read_kinds(std::string_view text) {
  std::vector<std::string> out;
  for (std::size_t begin = 0; begin < text.size();) {
    const auto end = std::min(text.find(',', begin), text.size());
    if (end > begin)
      out.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  if (out.size() > most_kinds)
    throw input_error("'kinds' has {} names; at most {} are allowed", out.size(), most_kinds);
  return out;
}

selection read_selection(const request& x, const record_ring& of) {
  selection out{.from = of.end()};
  for (const auto& [name, value] : x.query) {
    if (name == "kinds")
      out.kinds = read_kinds(value);
    else if (name == "most")
      out.most = read_count(name, value, most_records);
    else if (name == "newest")
      out.from = of.before_end(read_count(name, value, std::size_t(1) << 20));
    else if (name != "after")
      throw input_error("unknown parameter '{}'; this path accepts after, newest, kinds, most",
                        name);
  }
  const auto after = x.query.find("after");
  const auto again = x.header("last-event-id");  // sent by a browser that reconnects
  const auto text = !again.empty()           ? std::string(again)
                    : after != x.query.end() ? after->second
                                             : std::string();
  if (text.empty())
    return out;
  const auto from = read_viewer_position(text);
  if (!from)
    throw input_error("'after={}': give the 'next' of an earlier answer, such as 1:250", text);
  out.from = *from;
  return out;
}

std::string dropped_text(std::uint64_t count) {
  return json_text(nlohmann::json{{"kind", "dropped"}, {"count", count}});
}

}  // namespace

struct hub::state {
  state(hub_sources of_, hub_settings how_) : of(std::move(of_)), how(std::move(how_)) {}

  const hub_sources of;
  const hub_settings how;
  std::atomic<std::size_t> viewers = 0;
  std::atomic<clock::rep> looked_at{never};  ///< since the clock's epoch
  static constexpr auto never = clock::time_point::min().time_since_epoch().count();

  void look() { looked_at = clock::now().time_since_epoch().count(); }

  std::atomic<bool> finishes = false;

  /// The refusal of a request without the needed token; empty if it is allowed. A browser adds its
  /// cookies to requests of any page, so a command needs its token in the header.
  std::optional<response> refusal(const request& x, bool control) const {
    const bool commands = http::is_token(bearer_token(x), how.control_token);
    if (control ? commands
                : x.is_local || gives_viewer_token(x, how.read_token)
                      || gives_viewer_token(x, how.control_token))
      return {};
    const bool gives = has_viewer_token(x);
    auto out = http::error_response(
        gives ? 403 : 401,
        fmt::format("{}{}",
                    gives ? "the token of this request does not fit; " : "",
                    control
                        ? "commands need the run's control token, in the file 'control.token' of "
                          "its folder"
                        : "viewers need the run's token, in the file 'read.token' of its folder"));
    out.headers.emplace_back("WWW-Authenticate", "Bearer");
    return out;
  }
};

namespace {

/// A stream of records, as server-sent events or as JSON lines.
class record_stream final : public http::body_source {
 public:
  record_stream(std::shared_ptr<hub::state> of, selection what, bool events)
      : of_(std::move(of)), what_(std::move(what)), events_(events) {
    ++of_->viewers;
  }
  ~record_stream() override { --of_->viewers; }

  std::optional<std::string> next() override {
    const auto now = clock::now();
    // The server calls again right after each part. A viewer that lags gets its next part at once.
    // A viewer that has all records waits for the pulse, which groups new records into one part.
    if (!sent_all_ || now - asked_at_ >= of_->how.pulse) {
      asked_at_ = now;
      of_->look();
      auto text = pull();
      if (!text.empty()) {
        told_at_ = now;
        return text;
      }
    }
    if (sent_all_ && of_->finishes && what_.from == of_->of.records->end())
      return {};
    if (now - told_at_ < still_there)
      return "";
    told_at_ = now;
    return events_ ? ": still there\n\n" : "\n";
  }

 private:
  std::string pull() {
    const auto found
        = of_->of.records->since(what_.from, what_.most, of_->how.part_bytes, what_.kinds);
    std::string out;
    const auto epoch = found.next.epoch;
    for (const auto& x : found.records) {
      if (x.dropped > 0)
        out += one("dropped", dropped_text(x.dropped), {epoch, x.number});
      out += one(x.kind, x.text, {epoch, x.number + 1});
    }
    if (found.dropped > 0)
      out += one("dropped", dropped_text(found.dropped), found.next);
    what_.from = found.next;
    sent_all_ = found.next == of_->of.records->end() || found.records.empty();
    return out;
  }
  std::string one(std::string_view kind, std::string_view text, const viewer_position& next) const {
    if (events_)
      return http::event_text(text, kind, text_of(next));
    return std::string(text) + "\n";
  }

  std::shared_ptr<hub::state> of_;
  selection what_;
  bool events_;
  bool sent_all_ = true;
  clock::time_point asked_at_ = {}, told_at_ = clock::now();
};

/// The records as a JSON object. `rest`: further fields, each followed by a comma.
std::string text_of(const record_ring::pulled& found, const std::string& rest = {}) {
  std::string out = "{" + rest + "\"next\":\"" + text_of(found.next)
                    + "\",\"dropped\":" + std::to_string(found.all_dropped()) + ",\"records\":[";
  for (std::size_t i = 0; i < found.records.size(); ++i)
    out += (i == 0 ? "" : ",") + found.records[i].text;
  return out + "]}\n";
}

std::vector<http::server::route> routes_of(const std::shared_ptr<hub::state>& of) {
  using http::method;
  auto out = page_routes();
  const auto add = [&](method how, std::string path, bool control, auto answers) {
    out.push_back(
        {how, std::move(path), [of, control, answers](const std::shared_ptr<exchange>& x) {
           if (auto no = of->refusal(x->asked(), control))
             return x->answer(*std::move(no));
           of->look();
           answers(x);
         }});
  };
  add(method::get, "/api/run", false, [of](const std::shared_ptr<exchange>& x) {
    x->answer({.body = of->of.run + "\n"});
  });
  add(method::get, "/api/state", false, [of](const std::shared_ptr<exchange>& x) {
    const auto found
        = of->of.records->beginning(most_steps_at_first, most_others_at_first, most_bytes_at_first);
    x->answer(
        {.body = text_of(found,
                         fmt::format("\"id\":\"{}\",\"epoch\":{},", of->of.id, found.next.epoch))});
  });
  add(method::get, "/metrics", false, [of](const std::shared_ptr<exchange>& x) {
    x->answer(
        {.type = "text/plain; version=0.0.4", .body = of->of.metrics(of->viewers), .headers = {}});
  });
  add(method::get, "/api/records", false, [of](const std::shared_ptr<exchange>& x) {
    const auto what = read_selection(x->asked(), *of->of.records);
    x->answer({.body = text_of(
                   of->of.records->since(what.from, what.most, of->how.part_bytes, what.kinds))});
  });
  const auto stream = [of](bool events) {
    return [of, events](const std::shared_ptr<exchange>& x) {
      auto what = read_selection(x->asked(), *of->of.records);
      x->stream({.type = events ? "text/event-stream" : "application/x-ndjson",
                 .body = {},
                 .headers = {}},
                std::make_unique<record_stream>(of, std::move(what), events));
    };
  };
  add(method::get, "/api/events", false, stream(true));
  add(method::get, "/api/lines", false, stream(false));
  add(method::post, "/api/command", true, [of](const std::shared_ptr<exchange>& x) {
    if (!of->of.command)
      return x->answer(http::error_response(404, "this run accepts no commands"));
    if (!x->asked().header("content-type").starts_with("application/json"))
      return x->answer(
          http::error_response(415, "a command needs the header Content-Type: application/json"));
    of->of.command(x->asked().body, x);
  });
  return out;
}

http::settings settings_of(const hub_settings& how) {
  http::settings out;
  out.limits.body_bytes = 64 << 10;  // only commands have a body
  out.limits.connections = how.viewers;
  out.tls = how.tls;
  out.names = how.names;
  out.pulse = how.pulse;
  out.niceness = 10;  // threads of the run that compute go first
  return out;
}

}  // namespace

hub::hub(hub_sources of, hub_settings how)
    : state_(std::make_shared<state>(std::move(of), std::move(how))),
      server_(std::make_unique<http::server>(
          state_->how.at, routes_of(state_), settings_of(state_->how))) {}

hub::~hub() = default;

const std::vector<std::uint16_t>& hub::ports() const {
  return server_->ports();
}

std::size_t hub::viewers() const {
  return state_->viewers;
}

bool hub::is_watched(std::chrono::steady_clock::duration within) const {
  const auto at = state_->looked_at.load();
  return at != state::never && clock::now() - clock::time_point(clock::duration(at)) < within;
}

void hub::finish(std::chrono::milliseconds patience) {
  state_->finishes = true;
  const auto until = clock::now() + patience;
  while (state_->viewers > 0 && clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
}

}  // namespace troupe::runtime
