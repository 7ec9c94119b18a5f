// State used by a stage's lanes. Only the lanes access it while they have work; the actor reads
// results of finished work.

#pragma once

#include "actors/stage/snapshots.hpp"
#include "actors/stage/stage.hpp"
#include "runtime/core/core_wait.hpp"
#include "runtime/job/job_seats.hpp"
#include "runtime/parameters/watched_gradients.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace troupe::actors {

/// Shared: a lane may outlive the actor.
struct stage_context : std::enable_shared_from_this<stage_context> {
  struct joined_group {
    runtime::seat_group what;
    std::unique_ptr<runtime::communicator> by;
  };
  std::vector<joined_group> groups;
  std::unique_ptr<runtime::worker> worker;
  std::uint64_t transfer_ns = 0;  ///< from the request to a keeper until the state has arrived
  int buckets = 0;
  std::vector<int> gather_order;
  /// Number of the work that reduces bucket 0 in this step; bucket b has the number + b.
  std::atomic<std::uint64_t> first_reduction = 0;
  std::atomic<std::uint64_t> step = 0;
  /// Progress of the lane, the communication lane and the saver.
  std::shared_ptr<runtime::lane_board::place> places[3];

  /// Counts the time in which the lane's thread has no core.
  runtime::core_wait core;

  /// Passes of the step that are verified by another replica, until their backward pass is done.
  struct kept_pass {
    runtime::bundle in = {}, gradient = {};
    runtime::digest output = {}, input_gradient = {};
    runtime::added_gradients added = {};
  };
  std::map<runtime::pass_key, kept_pass> verified;

  /// A snapshot that is read beside the lane; updates wait for its end.
  std::shared_ptr<const snapshot_reading> saving;

  /// Records an action of the lane. Returns the longest action that the stream has passed, in
  /// milliseconds.
  double longest_ms(runtime::moment begin, runtime::moment end, const runtime::stream& by);

  /// Records a span from `begin` until now. A device has only enqueued the work: later work adds
  /// the spans that the device has completed.
  void trace(runtime::trace_recorder& to,
             runtime::span what,
             runtime::moment begin,
             runtime::stream& by);
  /// Records the remaining spans when a lane has ended. Waits at most a second for a hanging
  /// device.
  void trace_rest(runtime::trace_recorder& to, int track, runtime::stream& by) noexcept;

 private:
  struct late_span {
    runtime::span what;
    runtime::moment begin, end;
  };
  using late_spans = std::deque<late_span>;
  static void add_passed(runtime::trace_recorder& to, late_spans& late, runtime::stream& by);

  late_spans late_[2];  ///< by lane: the lane, the communication lane
  std::deque<std::pair<runtime::moment, runtime::moment>> timed_;
  double longest_ms_ = 0;
};

/// Time of the actor system's clock in nanoseconds.
std::uint64_t clock_ns(const messages::stage_actor& of);

/// A piece of work: traced, and reported to the actor when it has ended.
struct lane_task {
  std::string label;
  int rank = 0, track = 0;
  int place = 0;  ///< index on the board: 0 lane, 1 communication lane, 2 saver
  runtime::step_id step = {};
  std::uint64_t work = 0;
  std::shared_ptr<stage_context> context;
  std::shared_ptr<runtime::trace_recorder> trace;
  std::shared_ptr<const message_path> path;
  messages::stage_actor stage;

  void submit(runtime::lane& to, lane_work what) const;
};

}  // namespace troupe::actors
