// The hub of a run: serves its newest records, its state and its commands to viewers, by HTTP on a
// Unix socket in the run's folder and on ports. docs/protocol/hub.md.
//
//   VIEW-1  A viewer cannot harm the run: it reads bounded parts at its own pace, and changes
//           nothing without the control token.
//   VIEW-2  A request needs the run's read token or control token. On the Unix socket, which only
//           processes of this user reach, only commands need a token. The files of the page need
//           none (page_routes.hpp).

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

/// Carries out a command of a viewer with the control token, a JSON object {"command": ...}, and
/// answers.
using hub_command = std::function<void(std::string text, std::shared_ptr<http::exchange> to)>;

/// Sources of the answers. The functions run on the server's thread and must be quick.
struct hub_sources {
  std::shared_ptr<const record_ring> records;
  std::string id;                                           ///< of the run
  std::string run;                                          ///< the answer of /api/run
  std::function<std::string(std::size_t viewers)> metrics;  ///< Prometheus' text format
  hub_command command = {};                                 ///< null: this run takes no commands
};

struct hub_settings {
  std::vector<http::endpoint> at;
  std::optional<http::server_certificate> tls = {};
  std::vector<std::string> names = {};  ///< further names of this host
  std::string read_token, control_token;
  /// Minimum interval between two parts of a stream.
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
  /// True if a viewer has asked for something within this time. Any thread.
  bool is_watched(std::chrono::steady_clock::duration within) const;
  /// Ends all streams after their last record. Waits until they are sent, up to `patience`.
  void finish(std::chrono::milliseconds patience);

  struct state;  ///< hub.cpp

 private:
  std::shared_ptr<state> state_;
  std::unique_ptr<http::server> server_;
};

}  // namespace troupe::runtime
