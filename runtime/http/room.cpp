#include "runtime/http/session.hpp"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <utility>

namespace troupe::runtime::http {
namespace {

using boost::system::error_code;

/// The host without its port: "example.org", "10.0.0.7", "::1".
std::string_view host_of(std::string_view host) {
  if (host.starts_with('[')) {
    const auto end = host.find(']');
    return end == std::string_view::npos ? std::string_view() : host.substr(1, end - 1);
  }
  return host.substr(0, host.rfind(':'));
}

}  // namespace

std::string lower_case(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char x) { return char(std::tolower(x)); });
  return out;
}

room::room(std::vector<server::route> all, settings how_)
    : routes(std::move(all)), how(std::move(how_)) {}

void room::end_sessions() {
  timer.cancel();
  for (const auto& one : sessions)
    if (const auto alive = one.lock())
      alive->close();
  sessions.clear();
}

void room::begin_stream() {
  ++streams;
  if (how.pulse.count() > 0 && !std::exchange(is_pulsing, true))
    pulse();
}

void room::pulse() {
  if (streams == 0) {
    is_pulsing = false;
    return;
  }
  timer.expires_after(how.pulse);
  timer.async_wait([this](const error_code& cancelled) {
    if (cancelled)
      return;
    pulse();
    for (const auto& one : sessions)
      if (const auto alive = one.lock())
        alive->pulse();
  });
}

bool room::has_room(const caller& who) {
  const auto most = who.is_local ? how.limits.local_connections : how.limits.connections;
  const bool out = open_of(who) < most;
  refused += out ? 0 : 1;
  return out;
}

bool room::is_foreign(const request& x) const {
  const auto host = lower_case(x.header("host"));
  const auto is_ours = [this](std::string_view name) {
    error_code failed;
    asio::ip::make_address(std::string(name), failed);
    return !failed || name == "localhost" || std::ranges::any_of(how.names, [&](const auto& own) {
      return lower_case(own) == name;
    });
  };
  if (!x.is_local && !host.empty() && !is_ours(host_of(host)))
    return true;
  if (x.header("sec-fetch-site") == "cross-site")
    return true;
  const auto origin = lower_case(x.header("origin"));
  if (origin.empty())
    return false;
  const auto scheme = origin.find("://");  // "null" has none
  return scheme == std::string::npos || std::string_view(origin).substr(scheme + 3) != host;
}

const handler* room::find(const request& x, response& refusal) const {
  if (is_foreign(x)) {
    refusal = error_response(
        403,
        "refused: Host or Origin of the request is not a name of this server; open it by its "
        "address");
    return nullptr;
  }
  const auto asked = x.method == method::head ? method::get : x.method;
  const server::route* best = nullptr;
  std::string allowed;
  for (const auto& one : routes) {
    const bool is_folder = one.path.size() > 1 && one.path.ends_with('/');
    const bool fits = one.path == x.path || (is_folder && x.path.starts_with(one.path));
    if (!fits)
      continue;
    if (one.method != asked)
      allowed.append(allowed.empty() ? "" : ", ").append(name_of(one.method));
    else if (best == nullptr || one.path.size() > best->path.size())
      best = &one;
  }
  if (best != nullptr)
    return &best->answers;
  refusal = error_response(
      allowed.empty() ? 404 : 405,
      allowed.empty() ? "nothing is served at " + x.path : "this path accepts only " + allowed);
  if (!allowed.empty())
    refusal.headers.emplace_back("Allow", allowed);
  return nullptr;
}

}  // namespace troupe::runtime::http
