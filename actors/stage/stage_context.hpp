// What a stage's lanes work on. Only they touch it while there is work; the actor reads what a
// finished piece of work has left.

#pragma once

#include "actors/stage/snapshots.hpp"
#include "actors/stage/stage.hpp"
#include "runtime/core/core_wait.hpp"
#include "runtime/parameters/watched_gradients.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <utility>

namespace troupe::actors {

/// Shared, because a lane may still hold it when the actor is gone.
struct stage_context : std::enable_shared_from_this<stage_context> {
  /// See worker_groups.
  runtime::axis_map<std::unique_ptr<runtime::communicator>> groups;
  /// Of each hosted chunk, where the model has several copies.
  std::map<runtime::chunk_id, std::unique_ptr<runtime::communicator>> data_of;
  std::unique_ptr<runtime::worker> worker;
  std::int64_t parameters = 0;
  std::uint64_t transfer_ns = 0;  ///< from asking a keeper for the state until it was here
  int buckets = 0;
  std::vector<int> gather_order;
  /// Number of the piece of work that reduces bucket 0 in this step; that of bucket b is b more.
  std::atomic<std::uint64_t> first_reduction = 0;
  std::atomic<std::uint64_t> step = 0;
  /// What the lane, the communication lane and the saver are at.
  std::shared_ptr<runtime::lane_board::place> places[3];

  /// Of the lane's thread.
  runtime::core_wait core;

  /// Passes of the step that others are to compute again, until they have gone all the way.
  struct verified_pass {
    runtime::bundle in = {}, gradient = {};
    runtime::digest output = {}, input_gradient = {};
    runtime::added_gradients added = {};
  };
  std::map<runtime::pass_key, verified_pass> verified;

  /// A snapshot that is read beside the lane: nobody updates before that has ended.
  std::shared_ptr<const snapshot_reading> saving;

  /// Takes down an action of the lane; the longest so far of those that its stream has passed, in
  /// milliseconds.
  double longest_ms(runtime::moment begin, runtime::moment end, const runtime::stream& by);

  /// Work from `begin` until now. A device has only enqueued it: its spans are added when it has
  /// carried them out, with later work of the same lane.
  void trace(runtime::trace_recorder& to,
             runtime::span what,
             runtime::moment begin,
             runtime::stream& by);
  /// When a lane has ended: what its device carried out last. A device that hangs costs a second.
  void trace_rest(runtime::trace_recorder& to, int track, runtime::stream& by) noexcept;

 private:
  struct late_span {
    runtime::span what;
    runtime::moment begin, end;
  };
  using late_spans = std::deque<late_span>;
  static void add_passed(runtime::trace_recorder& to, late_spans& late, runtime::stream& by);

  late_spans late_[2];  ///< of each lane, in its order
  std::deque<std::pair<runtime::moment, runtime::moment>> timed_;
  double longest_ms_ = 0;
};

/// Of the actor system, in nanoseconds.
std::uint64_t clock_ns(const messages::stage_actor& of);

/// A piece of work: traced, and told to the actor when it has ended.
struct lane_task {
  std::string label;
  int rank = 0, track = 0;
  int place = 0;  ///< on the board: 0 the lane, 1 the communication lane, 2 the saver
  runtime::step_id step = {};
  std::uint64_t work = 0;
  std::shared_ptr<stage_context> context;
  std::shared_ptr<runtime::trace_recorder> trace;
  std::shared_ptr<const message_path> path;
  messages::stage_actor stage;

  void submit(runtime::lane& to, lane_work what) const;
};

}  // namespace troupe::actors
