#include "actors/job/hub_port.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/process/host_address.hpp"
#include "runtime/process/process_id.hpp"

namespace troupe::actors {
namespace {

runtime::http::server_certificate certificate_in(const std::filesystem::path& file) {
  const auto text = runtime::read_text(file);
  runtime::http::server_certificate out{.chain = text, .key = text};
  try {
    runtime::http::require_certificate(out);
  } catch (const runtime::error& failure) {
    throw runtime::input_error("`watch.hub_certificate` '{}': {}", file.string(), failure.what());
  }
  return out;
}

}  // namespace

std::optional<hub_port> hub_port_of(const runtime::watch_settings& x) {
  if (x.hub.empty()) {
    if (!x.hub_certificate.empty())
      throw runtime::input_error(
          "`watch.hub_certificate` needs `watch.hub` HOST:PORT: where viewers connect");
    return {};
  }
  const auto where = runtime::read_host_and_port(x.hub);
  // A resolver may answer "localhost" with ::1, and viewers of 127.0.0.1 would find nothing.
  const auto address
      = where.host == "localhost" ? "127.0.0.1" : runtime::numeric_address(where.host);
  hub_port out{.at = {.address = address, .port = where.port},
               .tls = {},
               .names = {where.host, runtime::host_name()}};
  if (!x.hub_certificate.empty())
    out.tls = certificate_in(x.hub_certificate);
  else if (!runtime::is_loopback(address))
    throw runtime::input_error(
        "`watch.hub` '{}' is open to other hosts, so it needs TLS: give `watch.hub_certificate`, "
        "or listen at 127.0.0.1:{} and connect with `ssh -L {}:127.0.0.1:{} HOST`",
        x.hub,
        where.port,
        where.port,
        where.port);
  return out;
}

}  // namespace troupe::actors
