#include "runtime/trainer/worker.hpp"

#include "runtime/optim/fingerprints.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/tensor/moves.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace troupe::runtime {
namespace {

axis_ranks ranks_of(const axis_map<communicator*>& groups) {
  axis_ranks out;
  for (const auto& row : axis_table())
    if (const auto* const group = groups[row.id])
      out[row.id] = {group->rank(), group->size()};
  return out;
}

axis_map<communicator*> single_axes(const group_map& all) {
  axis_map<communicator*> out;
  for (const auto& row : axis_table())
    if (const auto found = all.find(row.id); found != all.end())
      out[row.id] = found->second;
  return out;
}

/// True if a parameter of the chunk has a gradient for each of several sources.
bool sums_sources(const worker_settings& settings, const chunk& of) {
  return settings.expert_sums == source_sums::by_source
         && std::ranges::any_of(of.units(), [&](const unit_spec& unit) {
              return std::ranges::any_of(unit.parameters, [&](const parameter_spec& x) {
                return sources_of(x, of.axes()) > 1;
              });
            });
}

/// True if the gradients of a chunk may have temporary memory: no other rank, replica or source
/// adds to them, and the worker has no tie with another rank.
bool sums_alone(const worker_settings& settings,
                const worker_groups& all,
                chunk_id id,
                const chunk& model) {
  const auto sums = axes_where([](const axis_row& x) { return x.sums_gradients(); });
  const auto groups = all.of(id);
  return settings.replicas == 1 && all.of_tie.empty() && !sums_sources(settings, model)
         && std::none_of(groups.begin(), groups.end(), [&](const auto& x) {
              return x.first.meets(sums) && x.second->size() > 1;
            });
}

/// True if the values are not used between the last backward pass that reads them and the update.
bool drops_values_of(const worker_settings& settings, bool sums_alone) {
  return sums_alone && settings.precision != dtype::f32 && settings.estate == nullptr
         && !settings.verifies;
}

/// (unit, name) of the losses of a chunk.
std::set<std::pair<std::int64_t, std::string>> losses_in(const chunk& of) {
  std::set<std::pair<std::int64_t, std::string>> out;
  for (auto unit = of.range().first; unit < of.range().end; ++unit)
    for (const auto& x : of.model().units[std::size_t(unit)].module.traits().losses)
      out.emplace(unit, x.name);
  return out;
}

/// `from`: null, or the arrays that hold the values in fp32.
std::unique_ptr<parameter_store> store_of(const worker_settings& settings,
                                          const chunk& model,
                                          bool sums_alone,
                                          const memory_pool& pool,
                                          const state_arrays* from) {
  const bool exchanged = settings.estate != nullptr && settings.precision == dtype::f32;
  auto values = exchanged && from != nullptr ? from->weights : tensor();
  if (!settings.store)
    return std::make_unique<resident_store>(
        model.units(),
        settings.replicas,
        pool,
        settings.precision,
        model.axes(),
        std::move(values),
        sums_alone ? gradient_memory::by_unit : gradient_memory::lasting,
        drops_values_of(settings, sums_alone) ? value_memory::until_dropped : value_memory::lasting,
        settings.expert_sums);
  auto out
      = settings.store(model.units(), settings.replicas, pool, settings.precision, model.axes());
  if (exchanged && out->value_array() == nullptr)
    throw input_error(
        "cannot keep the state of the previous step: in fp32 it is in the values, and the "
        "parameter store of this job does not have them in one array; turn recovery off, or train "
        "in bf16");
  if (values)
    *out->value_array() = std::move(values);
  return out;
}

/// True if passes of a worker can add the counts of all replicas, each once.
bool meets_replicas(const worker_settings& settings, const worker_groups& groups) {
  const int met = groups.replicas == nullptr ? 1 : groups.replicas->size();
  const int all = groups.extents[axis::data];  // 0: unknown
  const bool meets_copies = std::ranges::all_of(groups.of_chunk, [&](const auto& x) {
    const auto found = groups.replicas_of_chunk.find(x.first);
    const auto sums = x.second.find(axis::data);
    return found != groups.replicas_of_chunk.end() && sums != x.second.end()
           && found->second->size() == sums->second->size();
  });
  return settings.replicas == 1 && (all == 0 || all == met) && meets_copies && !settings.verifies;
}

}  // namespace

group_map worker_groups::of(chunk_id c) const {
  auto out = along;
  if (const auto found = of_chunk.find(c); found != of_chunk.end())
    for (const auto& [axes, group] : found->second)
      out.insert_or_assign(axes, group);
  return out;
}

communicator* worker_groups::meeting(chunk_id c) const {
  const auto found = replicas_of_chunk.find(c);
  return found == replicas_of_chunk.end() ? replicas : found->second;
}

worker::hosted::hosted(const worker_settings& settings,
                       const hosted_chunk& which,
                       stream& stream,
                       const worker_groups& all,
                       const state_arrays* from,
                       bool draws)
    : copy(which.copy),
      all_groups(all.of(which.id)),
      groups(single_axes(all_groups)),
      state_sharded(settings.distributed_optimizer),
      compared(settings.compared && !settings.distributed_optimizer),
      model(settings.model, which.range, ranks_of(groups), settings.sequence_parallel),
      losses(losses_in(model)),
      plan(model, settings.recompute),
      store(store_of(
          settings, model, sums_alone(settings, all, which.id, model), stream.pool(), from)),
      witness(settings.verifies ? std::make_unique<witnessed_gradients>(*store, stream) : nullptr),
      buckets(make_buckets(
          *store,
          settings.bucket_size,
          [this](axis_set sum) { return sharers(sum); },
          settings.grain)),
      owned(owned_ranges(*store, buckets, [this](axis_set sum) { return share(sum); })),
      optimizer(*store,
                settings.optimizer,
                owned,
                stream.pool(),
                settings.grain,
                groups_of_optimizer(),
                from != nullptr ? *from : state_arrays(),
                prospects(),
                settings.estate != nullptr),
      step_counts(all.meeting(which.id)),
      counts_of_evaluation(all.replicas) {
  check_sums(all.extents);
  if (!draws || stream.pool().is_shadow())
    return;
  draw_initial_values(*store, settings.seed, [&](const initial_piece& x) {
    const auto n = std::int64_t(x.values.size());
    store->set_rounded(store->entries()[std::size_t(x.entry)], x.begin, n, x.rounded);
    optimizer.set_weights(x.entry, x.begin, x.values);
  });
}

worker::worker(worker_settings settings, stream& stream, const worker_groups& groups)
    : settings_(std::move(settings)),
      stream_(stream),
      groups_(groups),
      ties_(ties_of(settings_.model)),
      loss_names_(losses_of(settings_.model)) {
  const auto check = [](const group_map& all) {
    for (const auto& [axes, group] : all)
      ensure(group->along() == axes, "WORKER-7: each group lies along its axes");
  };
  check(groups.along);
  ensure(std::ranges::none_of(loss_names_, &loss_spec::over_replicas)
             || meets_replicas(settings_, groups),
         "WORKER-16: with a loss over replicas each has workers of its own, which meet in passes "
         "and compute each once");
  for (const auto& [chunk, all] : groups.of_chunk)
    check(all);
  for (const auto& [tie, group] : groups.of_tie)
    check({{axis::pipeline, group.by}});
  if (settings_.keeps_previous && settings_.estate == nullptr)
    settings_.estate = std::make_shared<rank_estate>();
  if (const auto& x = settings_.choices; !stream.pool().is_shadow()) {
    if (!x.record.empty())
      recorder_.emplace(x.record);
    if (!x.replay.empty())
      replayed_choices_.emplace(x.replay);
  }
  const bool draws = !enter_estate();
  std::int64_t grains = 0;
  for (const auto& which : settings_.chunks) {
    const auto home = homes_
                          .emplace(which.id,
                                   std::make_unique<hosted>(
                                       settings_, which, stream, groups, found_of(which.id), draws))
                          .first;
    auto& x = *home->second;
    for (const auto& e : x.store->entries())
      if (x.layers_of(e.index) == axis_view::experts)
        of_experts_.insert({e.spec.name, e.known_as()});
    for (std::size_t b = 0; b < x.buckets.size(); ++b)
      buckets_.push_back({&x, b});
    for (const auto& values : x.store->stretches_of_values())
      if (x.state_sharded && !x.store->is_frozen(values))
        grains
            += kernels::grains_in(words_of(x.store->type_of(values), values.size), settings_.grain);
    x.store->on_emit([this, &x](int unit) { emitted(x, unit); });
    x.store->on_gate_passed([this](const auto& point) { stream_.wait_for(point); });
  }
  std::vector<std::uint64_t> keys(static_cast<std::size_t>(grains));
  std::iota(keys.begin(), keys.end(), 0);
  vote_keys_ = uploaded(stream_, keys, {std::int64_t(keys.size())});
  settle_estate(draws);
}

worker::hosted& worker::at(chunk_id id) {
  const auto found = homes_.find(id);
  ensure(found != homes_.end(), "WORKER-1: an action names a chunk that this rank hosts");
  return *found->second;
}

chunk_pass& worker::pass(const pass_key& key, const char* otherwise) {
  const auto found = passes_.find(key);
  ensure(found != passes_.end(), otherwise);
  return *found->second;
}

void worker::begin_step(const step_settings& step) {
  stream_.begin_step(step.training);
  step_ = step;
  passes_.clear();
  losses_.clear();
  expert_rows_.clear();
  choices_.clear();
  end_computing_again();
  for (auto& [id, home] : homes_) {
    home->optimizer.gradients().forget();
    home->step_counts.begin_step();
  }
  drop_gradients();  // left by an abandoned step
  if (!step.training)
    return;
  for (auto& [id, home] : homes_) {
    home->done_reading.assign(home->model.units().size(), 0);
    home->store->zero_gradients();
    if (home->witness)
      home->witness->begin_step();
  }
}

std::unique_ptr<chunk_pass> worker::new_pass(hosted& home, parameter_store& store) {
  const pass_settings settings{
      .seed = settings_.seed,
      .step = value(step_.step),
      .training = step_.training,
      .loss_scale = step_.loss_scale / double(step_.microbatches * step_.logical_replicas),
      .per_token_loss = settings_.per_token_loss,
      .same_bits = settings_.same_bits,
      .gathers_rows = settings_.gathers_rows,
      .expert_load = settings_.expert_load,
      .counts_experts = step_.counts_experts,
      .records_choices = recorder_ && step_.training,
      .replays = replayed_choices_ && step_.training ? &*replayed_choices_ : nullptr,
      .step_counts = step_.training ? &home.step_counts : &home.counts_of_evaluation,
      .until = &settings_.until};
  return std::make_unique<chunk_pass>(home.model, home.plan, stream_, store, settings, home.groups);
}

bundle worker::forward(const pass_key& key, const bundle& in) {
  auto& home = at(key.chunk);
  auto pass = home.witness ? new_pass(home, *home.witness) : new_pass(home, *home.store);
  if (step_.training && home.drops_values())
    pass->on_read([this, &home](int unit) {
      if (++home.done_reading[std::size_t(unit)] == microbatches())
        home.store->drop_values(unit);
    });
  auto out = pass->forward(in);
  std::set<std::pair<std::int64_t, std::string>> written;
  for (const auto& [place, sums] : pass->losses())
    written.emplace(place.unit, place.name);
  ensure(!step_.training || written == home.losses,
         "WORKER-15: a pass writes the losses that its units name");
  if (!pass->losses().empty())
    losses_.emplace(key, pass->losses());
  for (const auto& [segment, rows] : pass->expert_rows())
    add_to(expert_rows_, rows);
  for (auto& [segment, choice] : pass->take_choices())
    choices_.push_back(std::move(choice));
  if (step_.training) {
    const bool fresh = passes_.emplace(key, std::move(pass)).second;
    ensure(fresh, "WORKER-2: a micro-batch passes a chunk once");
  }
  return out;
}

void worker::recompute(const pass_key& key, int block) {
  pass(key, "WORKER-8: recomputation comes after the forward pass").recompute(block);
}

bundle worker::input_gradients(const pass_key& key, const bundle& in, int block) {
  auto& found = pass(key, "WORKER-3: input gradients come after the forward pass");
  if (is_whole(key.chunk))
    return {};
  return found.input_gradients(in, block);
}

void worker::weight_gradients(const pass_key& key, int block) {
  add_gradients(key, block, nullptr);
}

void worker::add_gradients(const pass_key& key, int block, added_gradients* to) {
  auto& found = pass(key, "WORKER-4: weight gradients come after the forward pass");
  auto& home = at(key.chunk);
  home.store->select_replica(key.replica);
  if (home.witness)
    home.witness->begin(key.replica, value(key.microbatch), to);
  if (is_whole(key.chunk))
    found.backward(block);
  else
    found.weight_gradients(block);
  if (home.witness)
    home.witness->end();
  if (block == 0)
    passes_.erase(key);
}

bool worker::is_whole(chunk_id id) const {
  return homes_.at(id)->model.flow().is_whole();
}

bundle worker::backward(const pass_key& key, const bundle& in) {
  bundle out;
  const auto all = blocks(key.chunk);
  for (int b = int(all.size()) - 1; b >= 0; --b) {
    if (all[std::size_t(b)])
      recompute(key, b);
    out = input_gradients(key, in, b);
    weight_gradients(key, b);
  }
  return out;
}

std::uint64_t worker::waited_ns(chunk_id id) const {
  const auto& groups = homes_.at(id)->groups;
  std::uint64_t out = 0;
  for (const auto& row : axis_table())
    if (const auto* const group = groups[row.id]; group != nullptr && row.splits_replica())
      out += group->waited_ns();
  const auto* const meeting = groups_.meeting(id);
  return out + (meeting == nullptr ? 0 : meeting->waited_ns());
}

std::vector<char> worker::blocks(chunk_id id) const {
  std::vector<char> out;
  for (const auto& b : homes_.at(id)->plan.blocks)
    out.push_back(b.recomputed ? 1 : 0);
  return out;
}

void worker::update(const update_decision& decision) {
  widened_.clear();
  if (settings_.estate != nullptr) {
    settings_.estate->begin_update();
    current_ = 1 - current_;
  }
  const auto passes = step_.microbatches * step_.logical_replicas;
  for (auto& [id, home] : homes_)
    if (settings_.estate != nullptr)
      home->optimizer.update_beside(stream_, decision, slots_[current_].at(id).arrays, passes);
    else
      home->optimizer.update(stream_, decision, passes);
  updated_ = stream_.mark();
}

void worker::drop_gradients() {
  for (auto& [id, home] : homes_) {
    home->store->drop_gradients();
    home->optimizer.round_dropped_values(stream_);
  }
}

void worker::record_choices() {
  for (const auto& x : std::exchange(choices_, {}))
    recorder_->write(x);
}

void worker::digests(reads& by, state_digests& to) const {
  const auto parts = std::make_shared<std::vector<chunk_digests>>(homes_.size());
  std::size_t next = 0;
  for (const auto& [id, home] : homes_)
    home->optimizer.digests(by, (*parts)[next++]);
  by.then([this, parts, &to] {
    std::size_t at = 0;
    for (const auto& [id, home] : homes_)
      merge_digests(to, std::move((*parts)[at++]), home->answers());
  });
}

state_digests worker::digests() const {
  return read<state_digests>([&](reads& by, state_digests& to) { digests(by, to); });
}

std::vector<worker::held_array> worker::value_arrays() const {
  std::vector<held_array> out;
  for (const auto& [id, home] : homes_) {
    const bool stays = !home->drops_values();
    if (stays)
      out.push_back({0, stays});
    for (const auto& x : home->store->stretches_of_values()) {
      const auto& store = *home->store;
      const auto size = x.size * std::int64_t(size_of(store.type_of(x)) / size_of(store.type()));
      if (stays)
        out.back().elements += size;
      else
        out.push_back({size, store.is_frozen(x)});
    }
  }
  return out;
}

std::vector<worker::held_array> worker::gradient_arrays() const {
  std::vector<held_array> out;
  for (const auto& [id, home] : homes_)
    for (int part = 0; part < home->store->parts(); ++part)
      for (const auto& x : home->store->stretches_of_gradients(part))
        out.push_back({x.size, home->store->keeps_gradients()});
  return out;
}

std::int64_t worker::gradient_elements(chunk_id id) const {
  const auto& store = *homes_.at(id)->store;
  std::int64_t sum = 0;
  for (const auto& e : store.entries())
    sum += e.gradient_room() * store.sources(e);
  return sum;
}

std::int64_t worker::parameter_count() const {
  std::int64_t sum = 0;
  for (const auto& [id, home] : homes_)
    for (const auto& e : home->store->entries()) {
      const bool own = home->copy == copy_id(0) && e.spec.tied_to.empty()
                       && runtime::answers(e.spec, home->store->axes());
      sum += own ? e.valid : 0;
    }
  return sum;
}

}  // namespace troupe::runtime
