// What a stage's lanes work on. Only they touch it while there is work; the actor reads what a
// finished piece of work has left.

#pragma once

#include "actors/stage/stage.hpp"

#include <atomic>
#include <deque>
#include <memory>

namespace troupe::actors {

/// Shared, because a lane may still hold it when the actor is gone.
struct stage_state::bench {
  std::unique_ptr<runtime::communicator> tensor, data, ties;
  /// Of each hosted chunk, where the model has several copies.
  std::map<runtime::chunk_id, std::unique_ptr<runtime::communicator>> data_of;
  std::unique_ptr<runtime::worker> worker;
  std::int64_t parameters = 0;
  int buckets = 0;
  std::vector<int> gather_order;
  /// Number of the piece of work that reduces bucket 0 in this step; that of bucket b is b more.
  std::atomic<std::uint64_t> first_reduction = 0;
  std::atomic<std::uint64_t> step = 0;

  /// Work from `begin` until now. A device has only enqueued it: its spans are added when it has
  /// carried them out, with later work of the same lane.
  void trace(runtime::trace_recorder& to,
             runtime::span what,
             runtime::moment begin,
             runtime::stream& by);

 private:
  struct late_span {
    runtime::span what;
    runtime::moment begin, end;
  };
  std::deque<late_span> late_[2];  ///< of each lane, in its order
};

/// A piece of work: traced, and told to the actor when it has ended.
struct stage_state::errand {
  std::string label;
  int rank = 0, track = 0;
  runtime::step_id step = {};
  std::uint64_t work = 0;
  std::shared_ptr<bench> on;
  std::shared_ptr<runtime::trace_recorder> trace;
  messages::stage_actor whom;

  void submit(runtime::lane& to, lane_work what) const;
};

/// Each array in host memory of its own, which is filled when the stream has finished, and where it
/// belongs.
runtime::bundle copied(const std::vector<runtime::named_array>& arrays, runtime::stream& by);
std::vector<messages::fragment> places_of(const std::vector<runtime::named_array>& arrays);

}  // namespace troupe::actors
