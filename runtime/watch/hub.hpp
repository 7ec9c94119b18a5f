// The hub of a run: serves its newest records, its state and its commands to viewers, by HTTP on a
// Unix socket in the run's folder and on ports. docs/protocol/hub.md.
//
//   HUB-1  Whoever watches cannot hurt the run: a viewer speaks to this server alone, reads bounded
//          parts at its own pace, and changes nothing without the control token.
//   HUB-2  Requests need the run's read token or control token, except on the Unix socket, which
//          only processes of this user reach; commands need the control token there too, so that a
//          view that was meant to read cannot command by accident.

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

/// An order to the run, from a viewer with the control token: a JSON object, {"command": ...}.
using hub_command = std::function<void(std::string text, std::shared_ptr<http::exchange> to)>;

/// What a hub asks its process, on the server's thread: each must be quick. Texts are JSON objects.
struct hub_sources {
  std::shared_ptr<const record_ring> records;
  std::function<std::string()> run;      ///< what does not change: names, job, layout, plan
  std::function<std::string()> state;    ///< the newest of everything, for a viewer that begins
  std::function<std::string()> metrics;  ///< Prometheus' text format
  hub_command command;                   ///< null: this run takes no commands
};

struct hub_settings {
  std::vector<http::endpoint> at;
  std::optional<http::server_certificate> tls = {};
  std::vector<std::string> names = {};  ///< further names of this host
  std::string read_token, control_token;
  /// Viewers of a stream get new records at this interval at most.
  std::chrono::milliseconds pulse{100};
  std::size_t viewers = 128;
  std::size_t part_bytes = 256 << 10;  ///< of one part of a stream, or of an answer
};

class hub {
 public:
  /// Throws as http::server.
  hub(hub_sources of, hub_settings how);
  ~hub();
  hub(const hub&) = delete;
  hub& operator=(const hub&) = delete;

  const std::vector<std::uint16_t>& ports() const;
  std::size_t viewers() const;  ///< open streams; any thread
  /// When a request or a stream last asked for anything; any thread. Costly things are measured
  /// only while somebody looks.
  bool is_watched(std::chrono::steady_clock::duration within) const;

  struct state;  ///< hub.cpp

 private:
  std::shared_ptr<state> state_;
  std::unique_ptr<http::server> server_;
};

}  // namespace troupe::runtime
