#include "actors/simulation/idle_worker.hpp"

#include "runtime/core/error.hpp"
#include "runtime/model/chunk.hpp"
#include "runtime/state/state_check.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors::simulation {
namespace {

runtime::tensor zero_floats(std::int64_t n) {
  runtime::memory_pool pool;
  const auto bytes = std::size_t(n) * sizeof(float);
  runtime::tensor out(pool.allocate(bytes), runtime::dtype::f32, {n});
  pool.clear(out.raw(), bytes);
  return out;
}

void add_parts(runtime::bundle& to,
               const std::vector<std::string>& names,
               const runtime::tensor& each) {
  for (const auto& name : names)
    to.add(name, each);
}

/// One loss a unit that has it: a mean of 1.
std::vector<runtime::loss_part> losses_in(const runtime::model_spec& model,
                                          const runtime::chunk_range& range) {
  const auto all = runtime::losses_of(model);
  std::vector<runtime::loss_part> out;
  for (auto unit = range.first; unit < range.end; ++unit)
    for (const auto& x : model.units[std::size_t(unit)].module.traits().losses)
      out.push_back(
          {.total = 1,
           .tokens = 1,
           .loss = int(std::ranges::find(all, x.name, &runtime::loss_spec::name) - all.begin()),
           .unit = unit});
  std::ranges::sort(out, {}, &runtime::loss_part::order);
  return out;
}

/// Parameters without ties, as Adam has them: a weight and two moments each.
void add_parameters(idle_rank& to,
                    const std::vector<runtime::unit_spec>& units,
                    const runtime::axis_ranks& ranks,
                    std::int64_t grain) {
  auto digested = std::make_shared<runtime::digested_chunk>(runtime::digested_chunk{grain});
  auto& parts = digested->parts;
  for (const auto& unit : units)
    for (const auto& x : unit.parameters) {
      if (x.frozen || !x.tied_to.empty())
        continue;
      const bool counts = answers(x, ranks);
      const bool is_sharded = x.placements[runtime::axis::tensor].sharded();
      const auto at = std::int64_t(parts.size());
      parts.push_back({.parameter = x.name,
                       .repeated = !counts,
                       .shard = is_sharded ? ranks[runtime::axis::tensor].rank : 0,
                       .begin = 0,
                       .end = 1,
                       .at = {2 * at, 2 * at + 1}});
      to.state.own_weights.emplace_back(at, at + 1);
      if (counts)
        to.norms.emplace(x.name, runtime::exact_sum(1));
    }
  const auto n = std::int64_t(parts.size());
  to.state.arrays = {zero_floats(n), zero_floats(2 * n)};
  to.state.digested = std::move(digested);
}

std::shared_ptr<const idle_rank> made_rank(const runtime::worker_settings& settings,
                                           runtime::axis_rank tensor) {
  const auto& hosted = settings.chunks.front();
  const runtime::chunk whole(settings.model, hosted.range);
  auto out = std::make_shared<idle_rank>(idle_rank{
      .chunk = hosted.id, .flow = whole.flow(), .losses = losses_in(settings.model, hosted.range)});
  add_parameters(*out, whole.units(), {{runtime::axis::tensor, tensor}}, settings.grain);
  runtime::rank_estate sealed;
  sealed.allot({{hosted.id, out->state}}, {{hosted.id, out->state}});
  sealed.seal(0, {});
  out->digests = runtime::digests_of(sealed.state(0));
  return out;
}

/// Without chunks the base allocates nothing and computes nothing.
runtime::worker_settings without_work(runtime::worker_settings of) {
  return {.seed = of.seed, .estate = std::move(of.estate), .until = std::move(of.until)};
}

class silent_communicator final : public runtime::communicator {
 public:
  silent_communicator(runtime::axis_set along, int rank, int size)
      : along_(along), rank_(rank), size_(size) {}

  runtime::axis_set along() const override { return along_; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { refuse(); }
  void all_reduce_sum(runtime::stream&,
                      runtime::dtype,
                      std::span<const void* const>,
                      void*,
                      std::int64_t) override {
    refuse();
  }
  void reduce_scatter_sum(
      runtime::stream&, runtime::dtype, std::span<const void* const>, void*, offsets) override {
    refuse();
  }
  void all_gather(runtime::stream&, const void*, void*, offsets) override { refuse(); }
  void all_to_all(runtime::stream&, const void*, offsets, void*, offsets) override { refuse(); }
  void broadcast(runtime::stream&, void*, std::int64_t, int) override { refuse(); }

 private:
  [[noreturn]] static void refuse() {
    throw runtime::broken_promise("IDLE-1: workers without tensor work exchange no tensors");
  }

  runtime::axis_set along_;
  int rank_, size_;
};

}  // namespace

std::shared_ptr<const idle_rank> idle_ranks::of(const runtime::worker_settings& settings,
                                                runtime::axis_rank tensor) {
  runtime::ensure(settings.chunks.size() == 1, "IDLE-2: a rank without tensor work has one chunk");
  const std::lock_guard lock(mutex_);
  auto& found = all_[{settings.chunks.front().id, tensor.rank}];
  if (!found)
    found = made_rank(settings, tensor);
  return found;
}

idle_worker::idle_worker(std::shared_ptr<const idle_rank> of,
                         runtime::worker_settings settings,
                         runtime::stream& by)
    : worker(without_work(std::move(settings)), by), of_(std::move(of)) {
  if (estate() && estate()->is_blank())
    estate()->allot({{of_->chunk, of_->state}}, {{of_->chunk, of_->state}});
}

runtime::bundle idle_worker::forward(const runtime::pass_key&, const runtime::bundle&) {
  runtime::bundle out;
  for (const auto* const names : {&of_->flow.after.streams, &of_->flow.after.inputs})
    add_parts(out, *names, of_->state.arrays.weights);
  return out;
}

runtime::bundle idle_worker::input_gradients(const runtime::pass_key&,
                                             const runtime::bundle&,
                                             int block) {
  runtime::bundle out;
  if (block == 0)
    add_parts(out, of_->flow.before.streams, of_->state.arrays.weights);
  return out;
}

void idle_worker::weight_gradients(const runtime::pass_key&, int) {}

void idle_worker::losses(runtime::reads&, std::vector<runtime::loss_part>& to) const {
  to.insert(to.end(), of_->losses.begin(), of_->losses.end());
}

void idle_worker::norms(runtime::reads&, runtime::square_norms& to) const {
  to = of_->norms;
}

void idle_worker::norms_and_digests(runtime::reads& by,
                                    runtime::square_norms& norms,
                                    runtime::by_view<runtime::digest>& to) const {
  this->norms(by, norms);
  to.dense = {1, 1};
}

void idle_worker::digests(runtime::reads&, runtime::state_digests& to) const {
  to = of_->digests;
}

std::unique_ptr<runtime::communicator> idle_communicator(const group_place& x) {
  return std::make_unique<silent_communicator>(x.along, x.rank, int(x.members.size()));
}

}  // namespace troupe::actors::simulation
