// Start and end of a stage: its lanes, groups and worker.

#include "actors/host/neighbours.hpp"
#include "actors/host/rank_states.hpp"
#include "actors/stage/stage.hpp"
#include "actors/stage/stage_context.hpp"
#include "actors/support/guard.hpp"
#include "runtime/core/lane_clock.hpp"
#include "runtime/core/log.hpp"
#include "runtime/job/device_setup.hpp"
#include "runtime/trainer/worker_of_job.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace troupe::actors {

stage_state::~stage_state() {
  if (queue_length_)
    queue_length_->store(0, std::memory_order_relaxed);  // the counter outlives the stage
  place_.reset();
  if (groups_)
    groups_->token().cancel();
  if (!lane_)
    return;
  std::vector<std::unique_ptr<runtime::lane>> lanes;
  lanes.push_back(std::move(lane_));
  for (auto* const other : {&communication_lane_, &saver_})
    if (*other)
      lanes.push_back(std::move(*other));
  // The worker hands over its estate after all work has ended, while its stream still exists.
  auto ended = [context = std::move(context_)] { context->worker.reset(); };
  node_->reaper->take(
      std::move(lanes), std::move(ended), std::move(held_), node_->env.watches_lanes);
}

void stage_state::start(messages::spawn_stage told,
                        std::shared_ptr<const opened_job> job,
                        std::shared_ptr<const stage_resources> node,
                        std::shared_ptr<group_registry> groups) {
  told_ = std::move(told);
  told_.job = {};  // opened by the node
  job_ = std::move(job);
  node_ = std::move(node);
  groups_ = std::move(groups);
  const auto at = job_->seats.at(told_.rank);
  replica_ = at[runtime::axis::data];
  pipeline_rank_ = at[runtime::axis::pipeline];
  leads_ = job_->seats.leads(told_.rank);
  where_ = job_->seats.name(told_.rank);
  who_ = "stage:" + where_;
  end_on_exception(self_, who_);
  context_ = std::make_shared<stage_context>();
  take_places();
  join_groups();
  auto settings = settings_of_lane("lane " + where_);
  const auto tell_rest = [this](int track) {
    return [context = context_, to = node_->trace, track](runtime::stream& by) {
      if (to)
        context->trace_rest(*to, track, by);
    };
  };
  settings.at_end = tell_rest(0);
  if (settings.where != kernels::backend::cuda) {
    settings.pool = node_->pools->of(told_.rank);
    settings.pool.share_by(sums_by_mapping() ? node_->neighbours->shared_memory()
                                             : runtime::memory_source());
  }
  node_->pools->add(told_.rank, settings.pool);
  held_ = node_->living->enter({told_.generation, "lane:" + where_, told_.rank});
  // The registry keeps the pool to report its peak, so its memory is returned when the lanes end.
  if (settings.where == kernels::backend::cuda)
    held_ = std::shared_ptr<void>(
        nullptr, [presence = held_, pool = settings.pool](void*) mutable { pool.release_idle(); });
  if (overlaps_gradients() || overlaps_parameters()) {
    auto beside = settings;
    beside.name = "reduce " + where_;
    beside.threads = 1;
    beside.at_end = tell_rest(1);
    if (settings.where == kernels::backend::cuda)
      beside.pool = {};  // a pool serves one queue only
    communication_lane_ = node_->env.make_lane(beside);
  }
  lane_ = node_->env.make_lane(settings);
  if (place_)  // last: it reads the members above
    place_->describe_by([this] { return waits_for(); });
}

runtime::lane_settings stage_state::settings_of_lane(const std::string& called) const {
  return {.name = called,
          .where = job_->job.backend,
          .threads = job_->job.threads_per_worker,
          .pool = {},
          .device = runtime::device_of(job_->job, told_.rank, node_->devices.get())};
}

namespace {

/// True if passes do not use the group. An expert group is of passes, also over several replicas.
bool is_outside_passes(const runtime::seat_group& x) {
  return !x.of_losses && x.along.meets(runtime::axes_where([](const runtime::axis_row& row) {
    return !row.splits_replica();
  }));
}

}  // namespace

void stage_state::join_groups() {
  const bool overlaps = overlaps_gradients() || overlaps_parameters();
  for (auto& x : runtime::groups_of(job_->pipeline, job_->seats, told_.rank)) {
    const bool by_wire = overlaps && is_outside_passes(x) && !x.along.has(runtime::axis::pipeline);
    std::vector<int> processes;
    for (const int member : x.members)
      processes.push_back(job_->placed.process_of(member));
    // Only the group needs its members from here on.
    const group_place place{
        .name = x.name,
        .along = x.along,
        .members = std::move(x.members),
        .rank = x.rank,
        .device = runtime::device_of(job_->job, told_.rank, node_->devices.get()),
        .processes = std::move(processes),
        .beside = by_wire,
        .name_of = [job = job_, lane = by_wire ? "wire:" : "lane:"](int rank) {
          return lane + job->seats.name(rank);
        }};
    auto joined = groups_->join(place);
    if (const auto id = groups_->id_for_others(place))
      opened_.push_back({.generation = told_.generation,
                         .group = x.name,
                         .members = place.members,
                         .id = {id->bytes.begin(), id->bytes.end()}});
    context_->groups.push_back({std::move(x), std::move(joined)});
  }
}

// Excludes groups of passes: each operation of a pass allocates its operands anew.
bool stage_state::sums_by_mapping() const {
  const auto& all = context_->groups;
  return node_->neighbours && std::any_of(all.begin(), all.end(), [](const auto& x) {
           return is_outside_passes(x.what) && x.by->maps_arrays();
         });
}

bool stage_state::overlaps_gradients() const {
  return job_->job.reduction.overlap_gradients && job_->replicas() > 1;
}

bool stage_state::overlaps_parameters() const {
  return job_->job.reduction.overlap_parameters && job_->job.reduction.distributed_optimizer
         && job_->replicas() > 1;
}

void stage_state::meet(const messages::meet& peers) {
  if (peers.generation != told_.generation)
    return;
  peers_ = peers;
  for (auto& x : std::exchange(opened_, {}))
    node_->messages->send(self_, peers_.replica, std::move(x));
  if (told_.source.tier == runtime::state_tier::keeper
      || told_.source.tier == runtime::state_tier::local)
    fetch_state();
  else
    build();
}

void stage_state::receive(const messages::group_opened& x) {
  runtime::nccl_id id;
  if (x.generation != told_.generation || x.id.size() != id.bytes.size())
    return;
  std::ranges::transform(x.id, id.bytes.begin(), [](std::uint8_t byte) { return char(byte); });
  groups_->give(x.group, id);
}

namespace {

/// Makes the worker and fills it with its initial state.
void fill(stage_context& context,
          const std::string& where,
          runtime::worker_settings settings,
          const runtime::state_source& source,
          const stage_resources& node,
          int mesh_rank,
          runtime::stream& by,
          const runtime::worker_groups& groups) {
  const auto step = value(source.step);
  try {
    context.worker = node.env.make_worker({where, step}, std::move(settings), by, groups);
  } catch (const runtime::damaged_state&) {
    node.estates->renewed(mesh_rank);  // the estate is damaged
    throw;
  }
  auto& worker = *context.worker;
  if (source.tier == runtime::state_tier::start && node.restore)
    node.restore(worker);
  else if (source.tier == runtime::state_tier::disk)
    node.restore_saved(worker, step);
  if (!worker.estate())
    return;
  if (source.tier == runtime::state_tier::estate || source.tier == runtime::state_tier::keeper
      || source.tier == runtime::state_tier::local)
    worker.bring_values();
  else
    worker.seal(step, worker.digests());
}

/// The estate that a rank begins with; blank if its state comes from elsewhere.
std::shared_ptr<runtime::rank_estate> estate_for(
    const stage_resources& node,
    int mesh_rank,
    const runtime::state_source& source,
    const std::optional<messages::state_of_rank>& fetched,
    const runtime::cancel_token& until,
    runtime::stream& by) {
  if (source.tier == runtime::state_tier::estate)
    return node.estates->gone_back(mesh_rank, value(source.step), by);
  if (!fetched)
    return node.estates->renewed(mesh_rank);
  return node.estates->replaced(
      mesh_rank,
      runtime::rank_estate::made_of(redeemed(*node.transport, *fetched, {&by, until}),
                                    value(source.step),
                                    fmt::format("rank {}", mesh_rank),
                                    by));
}

}  // namespace

void stage_state::build() {
  auto blank_task = task_for("", 1, 0);
  blank_task.context = nullptr;  // the context owns this task: a reference back would be a cycle
  // Called on the lane, by the work that completes a bucket.
  const auto send_off = [lane = communication_lane_.get(),
                         context = std::weak_ptr(context_),
                         blank = std::move(blank_task)](int b) {
    const auto held = context.lock();
    auto x = blank;
    x.context = held;
    x.label = fmt::format("reduce {}", b);
    x.work = held->first_reduction + std::uint64_t(b);
    x.step = runtime::step_id(held->step.load());
    x.submit(*lane,
             [b](stage_context& at, runtime::stream& by) { at.worker->reduce_bucket(b, by); });
  };
  submit(
      "build",
      [job = job_,
       node = node_,
       rank = pipeline_rank_,
       source = told_.source,
       mesh_rank = told_.rank,
       where = where_,
       fetched = std::move(fetched_),
       token = groups_->token(),
       send_off,
       overlap = overlaps_gradients()](stage_context& context, runtime::stream& by) {
        if (node->profile)
          by.time_operations(node->profile);
        runtime::worker_groups groups{.extents = job->seats.extents()};
        for (const auto& x : context.groups)
          runtime::join(groups, x.what, *x.by);
        auto settings = runtime::settings_of(job->job, job->pipeline, rank);
        for (const auto layers : runtime::axis_views)
          settings.saves[layers] = job->counts(mesh_rank, layers);
        settings.until = token;
        const auto before = runtime::lane_clock_ns();
        if (job->job.recovery.on)
          settings.estate = estate_for(*node, mesh_rank, source, fetched, token, by);
        if (fetched)
          context.transfer_ns += runtime::lane_clock_ns() - before;
        fill(context, where, std::move(settings), source, *node, mesh_rank, by, groups);
        context.buckets = context.worker->buckets();
        context.gather_order = context.worker->gather_order();
        if (overlap)
          context.worker->on_complete(send_off);
      },
      [this] {
        node_->messages->send(
            self_,
            peers_.replica,
            messages::ready{told_.generation, replica_, double(context_->transfer_ns) / 1e9});
        stands_ = true;
        give_to_keeper();
      });
}

}  // namespace troupe::actors
