// Follows a live run through its hub (docs/formats/telemetry.md): reads /api/run and /api/state,
// then /api/lines, and connects again after a lost connection.
//
// A viewer calls it on a thread of its own; the follower starts no thread. Within one process of
// the run it goes on at the record where the connection was lost. Another process of the run, or
// another run in the same folder, begins with its state.
//
//   FOLLOW-1  The state and all records behind it come from the process that /api/run names. Each
//             request may reach another process, so the state's id and epoch are compared, and
//             /api/run is asked again before the first line of a stream is used.
//   FOLLOW-2  The position is exact behind each line, also where a connection was cut inside a
//             part.

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

struct followed_run {
  http::service_address at;
  std::optional<run_folder> folder = {};  ///< tells whether the run lives; empty: unknown
};

struct follower_limits {
  int first_attempts = 10;  ///< until the first answer; about 10 s
  int attempts = 50;        ///< since the newest line, without a folder; about 90 s
  /// Between two attempts. Doubles from the shortest on, until a line comes.
  std::chrono::milliseconds shortest{100}, longest{2000};
  std::chrono::seconds silence{15};  ///< without a line: the listener is told
  std::chrono::seconds lost{40};     ///< without a line: connects again
};

/// What a follower has read. Called on the follower's thread.
class run_listener {
 public:
  virtual ~run_listener() = default;
  /// Records of another run, or of another process of the run, follow: first its state. `run`: the
  /// answer of /api/run.
  virtual void begin(std::string_view run) = 0;
  virtual void take(std::string_view record) = 0;
  /// The state of the connection changed, as a sentence; empty: connected.
  virtual void connection(const std::string& state) = 0;
};

enum class follow_outcome {
  stopped,  ///< the viewer asked for it
  ended,    ///< the run has ended
  died,     ///< no process of the run lives and no end was recorded, or the end says so
  gone      ///< the folder of the run was removed before its end was seen
};

struct follow_end {
  follow_outcome how = follow_outcome::stopped;
  run_end end = {};  ///< if ended; `at` may be empty. If died: the reason, if there is one
};

/// The sentence for people.
std::string text_of(const follow_end& x);

/// Used by one thread.
class follower {
 public:
  /// Waits, and returns false when the follower shall stop. With 0 it only asks.
  using pause = std::function<bool(std::chrono::milliseconds)>;

  /// `to` must outlive the follower.
  follower(followed_run of, run_listener& to, pause wait, const follower_limits& limits = {});

  /// Reads the run and its state. Returns an end if there is no live run to follow. Throws io_error
  /// when the hub does not answer, and input_error for another service, another version, a refused
  /// token or a run on another host.
  std::optional<follow_end> read();

  /// Follows the run to its end, after `read` if it was not called before. Throws as `read`.
  follow_end follow();

  /// Position behind the newest record; empty before the first answer.
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
  bool is_silent_ = false;                       ///< and the listener knows
};

/// The view that a follower feeds, for another thread.
class shared_view final : public run_listener {
 public:
  void begin(std::string_view run) override;
  void take(std::string_view record) override;
  void connection(const std::string& state) override;

  /// Calls `look` under the lock: the follower waits for it.
  void look(const std::function<void(const run_view&, const std::string& connection)>& at) const;
  std::uint64_t changes() const;

 private:
  mutable std::mutex mutex_;
  run_view view_;
  std::string connection_ = "connecting to the run";
  std::uint64_t changes_ = 0;
};

}  // namespace troupe::runtime
