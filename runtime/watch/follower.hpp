// Follows a live run through its hub (docs/formats/telemetry.md) and reconnects after a lost
// connection. It reads /api/run and /api/state, then the stream /api/lines.
//
// A viewer calls it on the viewer's own thread; the follower starts no threads. After a
// reconnection to the same supervisor process, it continues at the next record. With a new
// supervisor process, or a new run in the same folder, it begins again with the state.
//
//   FOLLOW-1  The state and all later records come from the process that answered /api/run. Each
//             request may reach another process. So the follower compares id and epoch of the
//             state, and requests /api/run again before it uses the first line of a stream.
//   FOLLOW-2  The position is exact after each line, even if the connection breaks within a part.

#pragma once

#include "runtime/http/client.hpp"
#include "runtime/process/run_folder.hpp"
#include "runtime/telemetry/record_ring.hpp"
#include "runtime/watch/run_view.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// Version of the hub's answers (docs/formats/telemetry.md), in /api/run.
constexpr std::uint64_t hub_version = 1;

struct followed_run {
  http::service_address at;
  std::optional<run_folder> folder = {};  ///< shows if the run is alive; empty: unknown
};

struct follower_limits {
  int first_attempts = 10;  ///< before the first answer; takes about 10 s. One without an answer
                            ///< within `lost` is the last
  int attempts = 50;        ///< after the newest line, without a folder; about 90 s
  /// Pause between attempts: doubles from `shortest` up to `longest`; a line resets it.
  std::chrono::milliseconds shortest{100}, longest{2000};
  std::chrono::seconds silence{15};  ///< without a line, before the listener is notified
  std::chrono::seconds lost{40};     ///< without a line, before it reconnects
};

/// Receives the records and the state of the connection, on the thread of the follower.
class run_listener {
 public:
  virtual ~run_listener() = default;
  /// Called first, and again for a new supervisor process or a new run. All following records
  /// belong to it; its state comes first. `run`: the answer of /api/run.
  virtual void begin(std::string_view run) = 0;
  virtual void take(std::string_view record) = 0;
  /// Called when the state of the connection changes. `state`: a sentence; empty when connected.
  /// The call that follows `begin` comes after the state of the run and before new records.
  virtual void connection(const std::string& state) = 0;
};

enum class follow_outcome {
  stopped,  ///< the viewer stopped it
  ended,    ///< the run has ended
  died,     ///< all processes are gone without a recorded end, or the end has no exit code
  gone      ///< the run's folder was removed before the end was read
};

struct follow_end {
  follow_outcome how = follow_outcome::stopped;
  run_end end = {};  ///< ended: all, but `at` may be empty; died: only the reason, if known
};

/// The end as a sentence for the user.
std::string text_of(const follow_end& x);

/// Used by one thread.
class follower {
 public:
  /// Waits for this time; false tells the follower to stop. A time of 0 only checks.
  using pause = std::function<bool(std::chrono::milliseconds)>;

  /// `to` must outlive the follower.
  follower(followed_run of, run_listener& to, pause wait, const follower_limits& limits = {});

  /// Connects and reads the run and its state. Returns an end if the run is not alive.
  ///
  /// Throws io_error if the hub does not answer. Throws input_error for another service or version,
  /// a refused token, or a run on another host.
  std::optional<follow_end> read();

  /// Follows the run to its end. Calls `read` first if needed. Throws as `read`.
  follow_end follow();

  /// Position after the newest record; empty before the first answer.
  const std::optional<viewer_position>& position() const { return position_; }

 private:
  void connect();
  std::string ask(http::client& by, const std::string& target);
  std::string place() const;
  void require_hub(const http::response& x, const std::string& target) const;
  viewer_position begin(const std::string& run, const std::string& id, std::uint64_t epoch);
  void require_same_process();
  bool give(std::string_view line);
  bool note_silence();
  std::optional<follow_end> stream();
  std::optional<follow_end> look_again(const std::string& why);
  std::optional<follow_end> end_in_folder() const;

  followed_run of_;
  run_listener& to_;
  pause wait_;
  follower_limits limits_;
  std::optional<http::client> client_;
  std::string id_;  ///< of the run; empty before the first answer
  std::optional<viewer_position> position_;
  std::optional<follow_end> end_;
  int failed_ = 0;                               ///< attempts since the newest line
  std::chrono::steady_clock::time_point heard_;  ///< of the newest line
  bool is_silent_ = false;                       ///< the listener was notified of the silence
};

/// A view that a follower updates and other threads read.
class shared_view final : public run_listener {
 public:
  void begin(std::string_view run) override;
  void take(std::string_view record) override;
  void connection(const std::string& state) override;

  /// Calls `at` under the lock, so the follower waits until it returns.
  void look(const std::function<void(const run_view&, const std::string& connection)>& at) const;
  std::uint64_t changes() const;

 private:
  mutable std::mutex mutex_;
  run_view view_;
  std::string connection_ = "connecting to the run";
  std::uint64_t changes_ = 0;
};

}  // namespace troupe::runtime
