#include "actors/stage/snapshots.hpp"

#include "actors/stage/stage_context.hpp"
#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"

#include <utility>

namespace troupe::actors {

namespace {

std::size_t bytes_of(const std::vector<runtime::state_shard>& shards) {
  std::size_t out = 0;
  for (const auto& shard : shards)
    out += shard.elements.size_bytes();
  return out;
}

}  // namespace

void snapshot_reading::end() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
}

void snapshot_reading::wait(const runtime::cancel_token& token) const {
  const auto awake = token.on_cancel([this] {
    const std::lock_guard lock(mutex_);
    changed_.notify_all();
  });
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [&] { return ended_ || token.is_cancelled(); },
                {runtime::wait_reason::party::saver, "a snapshot read"});
  if (!ended_)
    throw runtime::cancelled();
}

std::vector<runtime::tensor_shard<runtime::tensor>> copied(
    const std::vector<runtime::state_shard>& shards,
    runtime::stream& by,
    const runtime::cancel_token& token) {
  std::vector<runtime::tensor_shard<runtime::tensor>> out;
  // Host copies of device memory return to the system as soon as they have been written.
  runtime::memory_pool pool = by.queue() == nullptr ? by.pool() : runtime::memory_pool();
  const auto room_for = [&](const runtime::state_shard& shard) {
    try {
      return pool.allocate(shard.elements.size_bytes());
    } catch (const runtime::io_error&) {
      throw runtime::io_error(
          "out of memory: the snapshot for a checkpoint copies {} of this worker's state to the "
          "host's memory, which has no room for the {} of '{}'; use fewer workers on this host, "
          "or `reduction.distributed_optimizer`, so that each copies less (see 'saving' in "
          "troupe memory)",
          runtime::human_bytes(double(bytes_of(shards))),
          runtime::human_bytes(double(shard.elements.size_bytes())),
          shard.name);
    }
  };
  for (const auto& shard : shards) {
    token.throw_if_cancelled();
    runtime::tensor x(room_for(shard), runtime::dtype::f32, shard.part.extents);
    by.read(x.raw(), shard.elements.data(), shard.elements.size_bytes());
    out.push_back(shard.with(std::move(x)));
  }
  return out;
}

// On a CPU the lane makes the copy between two steps. On a device the saver copies beside the next
// step, until that updates. The checkpointer writes it.
void stage_state::take_snapshot(const messages::take_snapshot& x) {
  if (x.generation != told_.generation || !job_->writes(told_.rank))
    return;
  // Takes back unredeemed tickets of the previous snapshot: one is written at a time.
  node_->transport->take_back(std::exchange(snapshot_, {}));
  snapshot_attempt_ = x.attempt;
  const auto result = std::make_shared<messages::snapshot>(messages::snapshot{
      .generation = x.generation, .step = x.step, .rank = told_.rank, .attempt = x.attempt});
  const auto copy = [result, by = node_->transport, token = groups_->token()](
                        stage_context& context) -> lane_work {
    return [=, parameters = context.worker->parameters(), moments = context.worker->moments()](
               stage_context&, runtime::stream& from) {
      const auto take = [&](const std::vector<runtime::state_shard>& shards) {
        std::vector<runtime::tensor_shard<runtime::ticket>> out;
        for (auto& shard : copied(shards, from, token))
          out.push_back(shard.with(by->deposit(std::move(shard.elements), result->generation)));
        return out;
      };
      result->parameters = take(parameters);
      result->moments = take(moments);
    };
  };
  auto report = [this, result] {
    for (const auto* shards : {&result->parameters, &result->moments})
      for (const auto& shard : *shards)
        snapshot_.push_back(shard.elements);
    node_->messages->send(self_, peers_.checkpointer, *result);
  };
  if (job_->job.backend == kernels::backend::cuda)
    submit_to_saver("snapshot", copy, std::move(report));
  else
    submit(
        "snapshot",
        [copy](stage_context& context, runtime::stream& by) { copy(context)(context, by); },
        std::move(report));
}

// A late message may refer to the previous snapshot, which is already gone.
void stage_state::drop_snapshot(const messages::drop_snapshot& x) {
  if (x.generation == told_.generation && x.attempt == snapshot_attempt_)
    node_->transport->take_back(std::exchange(snapshot_, {}));
}

void stage_state::submit_to_saver(std::string label,
                                  std::function<lane_work(stage_context&)> begin,
                                  std::function<void()> after) {
  if (!saver_)
    saver_ = node_->env.make_lane(settings_of_lane("save " + where_));
  const auto work = ++submitted_;
  after_.emplace(work, std::move(after));
  auto x = task_for(label, 0, work);
  x.place = 2;
  x.trace = nullptr;    // the lane records its own spans
  x.context = nullptr;  // the context may own this task: a reference back would be a cycle
  submit(
      std::move(label),
      [x, begin = std::move(begin), to = saver_.get()](stage_context& context,
                                                       runtime::stream& by) {
        const auto reading = std::make_shared<snapshot_reading>();
        context.saving = reading;
        // Released with the work, whether it completed, failed or was dropped.
        const std::shared_ptr<void> ends(nullptr, [reading](void*) { reading->end(); });
        auto what = begin(context);
        auto point = by.mark();
        auto beside = x;
        beside.context = context.shared_from_this();
        beside.submit(*to,
                      [ends, what = std::move(what), point = std::move(point)](
                          stage_context& at, runtime::stream& from) {
                        from.wait_for(point);
                        what(at, from);
                      });
      },
      [] {});
}

}  // namespace troupe::actors
