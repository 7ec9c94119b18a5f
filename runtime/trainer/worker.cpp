#include "runtime/trainer/worker.hpp"

#include "runtime/optim/fingerprints.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace troupe::runtime {
namespace {

tensor_seat seat_of(const worker_groups& groups) {
  if (groups.tensor == nullptr)
    return {};
  return {groups.tensor->rank(), groups.tensor->size()};
}

/// Two copies on one rank are alike.
void add_copies(std::map<std::string, digest>& to, const std::map<std::string, digest>& more) {
  for (const auto& [name, found] : more)
    ensure(to.emplace(name, found).first->second == found,
           "STEP-6: what several tensor ranks or stages hold, they hold alike");
}

}  // namespace

worker::hosted::hosted(const worker_settings& settings,
                       const hosted_chunk& which,
                       stream& on,
                       const worker_groups& groups)
    : copy(which.copy),
      data(groups.data_of_chunk(which.id)),
      spread(settings.distributed_optimizer),
      model(settings.model, which.range, seat_of(groups), settings.sequence_parallel, settings.own),
      route(model, settings.recompute),
      store(model.units(), settings.replicas, on.pool(), settings.precision, seat_of(groups)),
      buckets(make_buckets(store,
                           settings.bucket_size,
                           spread && data != nullptr ? data->size() : 1,
                           settings.grain)),
      owned(spread && data != nullptr ? owned_ranges(store, buckets, data->rank())
                                      : whole_ranges(store)),
      optimizer(store, settings.optimizer, owned, on.pool(), settings.grain) {
  if (on.pool().is_shadow())
    return;
  for (int i = 0; i < int(store.entries().size()); ++i) {
    const auto& e = store.entries()[std::size_t(i)];
    if (e.owner >= 0)
      continue;
    const auto values = initial_values(e, settings.seed);
    store.set(e, 0, values);
    optimizer.set_weights(i, 0, values);
  }
}

worker::worker(worker_settings settings, stream& on, const worker_groups& groups)
    : settings_(std::move(settings)), stream_(on), groups_(groups) {
  const auto lies = [](const communicator* group, axis along) {
    return group == nullptr || group->along() == along;
  };
  ensure(lies(groups.tensor, axis::tensor) && lies(groups.data, axis::data)
             && lies(groups.ties, axis::pipeline),
         "WORKER-7: each group lies along its axis");
  for (const auto& [chunk, group] : groups.data_of)
    ensure(lies(group, axis::data), "WORKER-7: each group lies along its axis");
  for (const auto& which : settings_.chunks) {
    const auto home
        = homes_.emplace(which.id, std::make_unique<hosted>(settings_, which, on, groups)).first;
    auto& x = *home->second;
    for (std::size_t b = 0; b < x.buckets.size(); ++b)
      buckets_.push_back({&x, b});
    x.store.on_emit([this, &x](int unit) { emitted(x, unit); });
    x.store.on_shown([this](const auto& point) { stream_.wait_for(point); });
  }
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
  if (step.training)
    for (auto& [id, home] : homes_)
      home->store.zero_gradients();
}

bundle worker::forward(const pass_key& key, const bundle& in) {
  auto& home = at(key.chunk);
  const pass_settings how{
      .seed = settings_.seed,
      .step = value(step_.step),
      .training = step_.training,
      .loss_scale = step_.loss_scale / double(step_.microbatches * step_.logical_replicas)};
  auto pass = std::make_unique<chunk_pass>(
      home.model, home.route, stream_, home.store, how, groups_.tensor);
  auto out = pass->forward(in);
  if (home.model.range().head)
    losses_.emplace(key, pass->loss_sums());
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
  return pass(key, "WORKER-3: input gradients come after the forward pass")
      .input_gradients(in, block);
}

void worker::weight_gradients(const pass_key& key, int block) {
  auto& found = pass(key, "WORKER-4: weight gradients come after the forward pass");
  at(key.chunk).store.select_replica(key.replica);
  found.weight_gradients(block);
  if (block == 0)
    passes_.erase(key);
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

std::vector<char> worker::blocks(chunk_id id) const {
  std::vector<char> out;
  for (const auto& b : homes_.at(id)->route.blocks)
    out.push_back(b.rebuilt ? 1 : 0);
  return out;
}

// Put together where they lie: the host waits once, not for each micro-batch.
loss_value worker::loss(int replica) const {
  std::vector<const tensor*> parts;
  for (const auto& [key, x] : losses_)  // ascending: replica, chunk, micro-batch
    if (key.replica == replica)
      parts.push_back(&x);
  loss_value sum;
  if (parts.empty())
    return sum;
  auto all = tensor::empty<double>(stream_, {std::int64_t(parts.size()), 2});
  for (std::size_t i = 0; i < parts.size(); ++i)
    stream_.copy(all.data<double>() + 2 * i, parts[i]->raw(), parts[i]->bytes());
  const auto numbers = elements_of<double>(stream_, all);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sum.total += numbers[2 * i];
    sum.tokens += numbers[2 * i + 1];
  }
  return sum;
}

square_norms worker::norms() {
  square_norms out;
  for (auto& [id, home] : homes_)
    if (home->answers())
      add_to(out, home->optimizer.norms(stream_));
  return out;
}

worker::finding worker::first_nonfinite(const square_norms& norms) const {
  finding out;
  for (const auto& [id, home] : homes_) {  // ascending: the way back begins at the last
    int number = 0;
    for (const auto& e : home->store.entries()) {
      const auto found = norms.find(e.spec.name);
      if (home->answers() && found != norms.end() && !found->second.is_finite())
        out = {e.spec.name, int(value(id)), number};
      ++number;
    }
  }
  return out;
}

std::int64_t worker::zero_gradients() {
  std::int64_t sum = 0;
  for (auto& [id, home] : homes_)
    sum += home->answers() ? home->optimizer.zero_gradients(stream_) : 0;
  return sum;
}

exact_sum worker::square_norm_of_parameters() {
  exact_sum sum;
  for (auto& [id, home] : homes_)
    if (home->answers())
      sum += home->optimizer.square_norm_of_weights(stream_);
  return sum;
}

void worker::spoil_gradient() {
  for (auto& [id, home] : homes_)
    for (const auto& e : home->store.entries())
      if (home->answers() && e.owner < 0 && e.spec.tied_to.empty()
          && (e.spec.along != cut::none || home->store.seat().rank == 0)) {
        const float nan = std::numeric_limits<float>::quiet_NaN();
        stream_.write(home->store.gradients(0).data() + e.gradient_offset, &nan, sizeof nan);
        return;
      }
}

digest worker::vote_digest() {
  std::vector<kernels::fingerprint<float>::piece> pieces;
  for (auto& [id, home] : homes_) {
    const auto key = std::uint64_t(pieces.size());
    if (settings_.distributed_optimizer) {
      const auto& values = home->store.all_values();
      pieces.push_back({values.raw(), std::int64_t(values.bytes() / 4), key});
    } else {
      const auto g = home->store.gradients(0);
      pieces.push_back({g.data(), std::int64_t(g.size()), key});
    }
  }
  digester d;
  for (const auto& x : fingerprints_of(stream_, pieces))
    d.add(x);
  return d.result();
}

void worker::update(const update_decision& decision) {
  for (auto& [id, home] : homes_)
    home->optimizer.update(stream_, decision);
  updated_ = stream_.mark();
}

state_digests worker::digests() {
  state_digests out;
  for (const auto& [id, home] : homes_) {
    auto part = home->optimizer.digests(stream_);
    if (home->answers())
      out.own.merge(part.own);
    else
      add_copies(out.copies, part.own);
    add_copies(out.copies, part.copies);
  }
  return out;
}

worker::resident worker::resident_elements() const {
  resident out;
  for (const auto& [id, home] : homes_) {
    out.values += home->store.all_values().size();
    out.gradients += home->store.gradient_size();
  }
  return out;
}

std::int64_t worker::parameter_count() const {
  std::int64_t sum = 0;
  for (const auto& [id, home] : homes_)
    for (const auto& e : home->store.entries()) {
      const bool own = home->copy == copy_id(0) && e.spec.tied_to.empty()
                       && (e.spec.along != cut::none || home->store.seat().rank == 0);
      sum += own ? e.valid : 0;
    }
  return sum;
}

}  // namespace troupe::runtime
