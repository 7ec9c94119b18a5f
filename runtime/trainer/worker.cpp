#include "runtime/trainer/worker.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::runtime {
namespace {

shape without_padding(const parameter_spec& x) {
  if (x.valid_rows < 0)
    return x.extents;
  return {x.valid_rows, x.extents[1]};
}

/// Parameters that a checkpoint names: not the aliases, not the copies of another stage's.
template <class Visit>
void for_each_own(const resident_store& store, Visit&& visit) {
  for (const auto& e : store.entries())
    if (e.spec.tied_to.empty())
      visit(e);
}

}  // namespace

worker::hosted::hosted(const worker_settings& settings, const hosted_chunk& which, stream& on)
    : model(settings.model, which.range),
      store(model.units(), settings.replicas, on.pool()),
      optimizer(store, settings.optimizer, on.pool()) {
  initialise(store, settings.seed);
}

worker::worker(worker_settings settings, stream& on) : settings_(std::move(settings)), stream_(on) {
  for (const auto& which : settings_.chunks)
    homes_.emplace(which.id, std::make_unique<hosted>(settings_, which, on));
}

worker::hosted& worker::at(chunk_id id) {
  const auto found = homes_.find(id);
  ensure(found != homes_.end(), "WORKER-1: an action names a chunk that this rank hosts");
  return *found->second;
}

void worker::begin_step(const step_settings& step) {
  step_ = step;
  passes_.clear();
  losses_.clear();
  if (step.training)
    for (auto& [id, home] : homes_)
      home->store.zero_gradients();
}

bundle worker::forward(const pass_key& key, const bundle& in) {
  auto& home = at(key.chunk);
  const pass_settings how{.seed = settings_.seed,
                          .step = value(step_.step),
                          .training = step_.training,
                          .loss_scale = 1.0 / double(step_.microbatches * step_.logical_replicas)};
  auto pass = std::make_unique<chunk_pass>(home.model, stream_, home.store, how);
  auto out = pass->forward(in);
  if (home.model.range().head)
    losses_.emplace(key, pass->loss());
  if (step_.training) {
    const bool fresh = passes_.emplace(key, std::move(pass)).second;
    ensure(fresh, "WORKER-2: a micro-batch passes a chunk once");
  }
  return out;
}

bundle worker::input_gradients(const pass_key& key, const bundle& in) {
  const auto found = passes_.find(key);
  ensure(found != passes_.end(), "WORKER-3: input gradients come after the forward pass");
  return found->second->input_gradients(in);
}

void worker::weight_gradients(const pass_key& key) {
  const auto found = passes_.find(key);
  ensure(found != passes_.end(), "WORKER-4: weight gradients come after the forward pass");
  at(key.chunk).store.select_replica(key.replica);
  found->second->weight_gradients();
  passes_.erase(found);
}

loss_value worker::loss(int replica) const {
  loss_value sum;
  for (const auto& [key, x] : losses_)  // ascending: replica, chunk, micro-batch
    if (key.replica == replica) {
      sum.total += x.total;
      sum.tokens += x.tokens;
    }
  return sum;
}

void worker::reduce(communicator& data, communicator* ties) {
  ensure(passes_.empty(), "WORKER-5: every pass has come back before gradients are reduced");
  for (auto& [id, home] : homes_) {
    auto& store = home->store;
    std::vector<float*> parts;
    for (int r = 0; r < store.replicas(); ++r)
      parts.push_back(store.gradients(r).data());
    if (data.size() > 1 || parts.size() > 1)
      data.all_reduce_sum(stream_, parts, std::int64_t(store.gradients(0).size()));
    add_tied_gradients(stream_, store);
  }
  if (ties == nullptr) {
    add_ties_between_chunks();
    return;
  }
  for (auto& [id, home] : homes_)
    for (const auto& e : home->store.entries()) {
      const bool copy = e.owner < 0 && !e.spec.tied_to.empty();
      const bool original = e.spec.name == "embedding.word_embeddings.weight";
      if (!copy && !original)
        continue;
      float* const part = home->store.gradients(0).data() + e.gradient_offset;
      ties->all_reduce_sum(stream_, {&part, 1}, e.size());
    }
}

void worker::add_ties_between_chunks() {
  std::map<std::string, float*> owners;
  for (auto& [id, home] : homes_)
    for (const auto& e : home->store.entries())
      owners.emplace(e.spec.name, home->store.gradients(0).data() + e.gradient_offset);
  for (auto& [id, home] : homes_)
    for (const auto& e : home->store.entries()) {
      if (e.owner >= 0 || e.spec.tied_to.empty())
        continue;
      const auto owner = owners.find(e.spec.tied_to);
      ensure(owner != owners.end(), "WORKER-6: both ends of a tied parameter see the sum");
      float* const copy = home->store.gradients(0).data() + e.gradient_offset;
      stream_.run(kernels::add<float>{copy, owner->second, copy, e.size()});
      std::memcpy(owner->second, copy, std::size_t(e.size()) * sizeof(float));
    }
}

square_norms worker::norms() {
  square_norms out;
  for (auto& [id, home] : homes_)
    out.merge(home->optimizer.norms(stream_));
  return out;
}

digest worker::gradient_digest() {
  digester d;
  for (auto& [id, home] : homes_) {
    const auto g = home->store.gradients(0);
    d.add(g.data(), g.size_bytes());
  }
  return d.result();
}

void worker::update(const update_decision& decision) {
  for (auto& [id, home] : homes_)
    home->optimizer.update(stream_, decision);
}

std::map<std::string, digest> worker::digests() const {
  std::map<std::string, digest> out;
  for (const auto& [id, home] : homes_)
    out.merge(home->optimizer.digests());
  return out;
}

std::vector<named_array> worker::parameters() {
  std::vector<named_array> out;
  for (auto& [id, home] : homes_)
    for_each_own(home->store, [&](const resident_store::entry& e) {
      out.push_back({e.spec.name,
                     without_padding(e.spec),
                     home->store.values().subspan(std::size_t(e.value_offset),
                                                  std::size_t(valid_size(e.spec)))});
    });
  return out;
}

std::vector<named_array> worker::moments() {
  std::vector<named_array> out;
  for (auto& [id, home] : homes_)
    for_each_own(home->store, [&](const resident_store::entry& e) {
      const auto part = [&](std::span<float> all) {
        return all.subspan(std::size_t(e.value_offset), std::size_t(valid_size(e.spec)));
      };
      const auto extents = without_padding(e.spec);
      out.push_back({"exp_avg." + e.spec.name, extents, part(home->optimizer.first_moments())});
      out.push_back({"exp_avg_sq." + e.spec.name, extents, part(home->optimizer.second_moments())});
    });
  return out;
}

void worker::restore(const reader& read, bool with_moments) {
  for (auto& [id, home] : homes_)
    for (const auto& e : home->store.entries()) {
      if (e.owner >= 0)
        continue;
      // A copy of another stage's parameter is filled with what its owner has.
      const auto& name = e.spec.tied_to.empty() ? e.spec.name : e.spec.tied_to;
      const auto extents = without_padding(e.spec);
      const auto part = [&](std::span<float> all) {
        return all.subspan(std::size_t(e.value_offset), std::size_t(valid_size(e.spec)));
      };
      read(name, extents, part(home->store.values()));
      if (!with_moments)
        continue;
      read("exp_avg." + name, extents, part(home->optimizer.first_moments()));
      read("exp_avg_sq." + name, extents, part(home->optimizer.second_moments()));
    }
}

std::int64_t worker::parameter_count() const {
  std::int64_t sum = 0;
  for (const auto& [id, home] : homes_)
    for_each_own(home->store, [&](const resident_store::entry& e) { sum += valid_size(e.spec); });
  return sum;
}

}  // namespace troupe::runtime
