// The hub of a run: an HTTP server for viewers (docs/protocol/hub.md). It serves the newest
// records, the state and the metrics of the run, and its web page, and accepts commands.
//
// The hub listens on a Unix socket in the run's folder, and optionally on ports.
//
//   VIEW-1  A viewer cannot harm the run. It reads bounded parts at its own pace, and cannot change
//           anything without the control token.
//   VIEW-2  A request needs the run's read token or control token. The Unix socket serves only
//           processes of this user, so only commands need a token there. The files of the page need
//           no token (page_routes.hpp).

#pragma once

#include "runtime/http/server.hpp"
#include "runtime/telemetry/record_ring.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::runtime {

/// Executes a command and answers `to`. `text`: the body of the request, a JSON object
/// {"command": ...}. The viewer had the control token.
using hub_command = std::function<void(std::string text, std::shared_ptr<http::exchange> to)>;

/// Data that the hub serves. The functions run on the server's thread and must return fast.
struct hub_sources {
  std::shared_ptr<const record_ring> records;
  std::string id;                                           ///< of the run
  std::string run;                                          ///< the answer of /api/run
  std::function<std::string(std::size_t viewers)> metrics;  ///< Prometheus' text format
  hub_command command = {};                                 ///< null: this run accepts no commands
};

struct hub_settings {
  std::vector<http::endpoint> at;
  std::optional<http::server_certificate> tls = {};
  std::vector<std::string> names = {};  ///< further host names of this server (HTTP-3)
  std::string read_token, control_token;
  /// Minimum interval between two parts of a stream.
  std::chrono::milliseconds pulse{100};
  std::size_t viewers = 128;           ///< connections on ports
  std::size_t part_bytes = 256 << 10;  ///< size of one part of a stream, or of an answer
};

class hub {
 public:
  /// Throws as the constructor of http::server.
  hub(hub_sources of, hub_settings how);
  ~hub();
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;

  const std::vector<std::uint16_t>& ports() const;
  std::size_t viewers() const;  ///< open streams; any thread
  /// True if a viewer has sent a request, or read from a stream, within this time. Thread-safe.
  bool is_watched(std::chrono::steady_clock::duration within) const;
  /// Ends each stream after its last record. Waits up to `patience` for the streams to end.
  void finish(std::chrono::milliseconds patience);

  struct state;  ///< hub.cpp

 private:
  std::shared_ptr<state> state_;
  std::unique_ptr<http::server> server_;
};

}  // namespace troupe::runtime
