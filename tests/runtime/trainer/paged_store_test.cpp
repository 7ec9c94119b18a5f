// Worker, buckets and optimizer use a store through its interface only: another implementation
// gives the same bits.

#include "runtime/core/error.hpp"
#include "runtime/parameters/parameter_gate.hpp"
#include "tests/support/ranks.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <atomic>
#include <cstring>

using namespace troupe;
using namespace troupe::runtime;

namespace {

/// A store with separate allocations for each unit. Layers read a copy, which is filled when the
/// unit is acquired and freed when it is released.
class paged_store final : public parameter_store {
 public:
  paged_store(const std::vector<unit_spec>& units,
              int replicas,
              memory_pool pool,
              dtype type,
              const axis_ranks& ranks,
              std::atomic<int>& fills)
      : type_(type),
        ranks_(ranks),
        pool_(std::move(pool)),
        replicas_(replicas),
        entries_(entries_of(units, ranks)),
        pages_(units.size()),
        gate_(units.size()),
        fills_(fills) {
    for (auto& e : entries_) {
      auto& here = pages_[std::size_t(e.unit)];
      e.follows = !here.entries.empty();
      offsets_.push_back({here.values_size, here.size});
      here.entries.push_back(e.index);
      here.values_size += e.owner < 0 ? e.room : 0;
      here.size += e.room;
    }
    for (auto& here : pages_) {
      here.values = zeros(type, here.values_size);
      for (int r = 0; r < replicas; ++r)
        here.gradients.push_back(zeros(dtype::f32, here.size));
    }
  }

  dtype type() const override { return type_; }
  const std::vector<parameter_entry>& entries() const override { return entries_; }
  const axis_ranks& axes() const override { return ranks_; }
  const memory_pool& pool() const override { return pool_; }
  int replicas() const override { return replicas_; }

  void acquire(int unit) override {
    gate_.pass(unit);
    auto& here = pages_[std::size_t(unit)];
    if (here.held++ > 0)
      return;
    ++fills_;
    here.copy = zeros(type_, here.size);
    for (const int e : here.entries)
      std::memcpy(at(here.copy, offsets_[std::size_t(e)].gradient),
                  values(e),
                  std::size_t(entries_[std::size_t(e)].size()) * size_of(type_));
  }
  void release(int unit) override {
    auto& here = pages_[std::size_t(unit)];
    ensure(here.held > 0, "a released unit was acquired");
    if (--here.held == 0)
      here.copy = {};
  }
  const void* value(int unit, int index) const override {
    const auto& here = pages_[std::size_t(unit)];
    ensure(here.held > 0, "values are read while their unit is acquired");
    const auto e = here.entries[std::size_t(index)];
    return here.copy.raw() + std::size_t(offsets_[std::size_t(e)].gradient) * size_of(type_);
  }
  float* gradient(int unit, int index, int) override {
    return gradients(selected_, pages_[std::size_t(unit)].entries[std::size_t(index)]);
  }
  void emit(int unit) override {
    ++pages_[std::size_t(unit)].emitted;
    if (then_)
      then_(unit);
  }

  using parameter_store::gradients;
  using parameter_store::values;
  std::byte* values(int entry) override {
    const auto& e = entries_[std::size_t(entry)];
    const int home = e.owner < 0 ? entry : e.owner;
    return at(pages_[std::size_t(entries_[std::size_t(home)].unit)].values,
              offsets_[std::size_t(home)].value);
  }
  float* gradients(int replica, int entry) override {
    auto& here = pages_[std::size_t(entries_[std::size_t(entry)].unit)];
    return here.gradients[std::size_t(replica)].data<float>()
           + offsets_[std::size_t(entry)].gradient;
  }
  void select_replica(int replica) override { selected_ = replica; }
  std::int64_t emitted(int unit) const override { return pages_[std::size_t(unit)].emitted; }
  void zero_gradients() override {
    for (auto& here : pages_) {
      here.emitted = 0;
      for (auto& g : here.gradients)
        pool_.clear(g.raw(), g.bytes());
    }
  }
  void on_emit(std::function<void(int)> then) override { then_ = std::move(then); }

  void close_gate(const cancel_token& token) override { gate_.close(token); }
  void open_gate(int unit, std::shared_ptr<device_event> point) override {
    gate_.open(unit, std::move(point));
  }
  void on_gate_passed(std::function<void(const std::shared_ptr<device_event>&)> wait) override {
    gate_.on_passed(std::move(wait));
  }

 private:
  struct page {
    std::vector<int> entries;
    std::int64_t values_size = 0, size = 0, emitted = 0;
    tensor values, copy;
    std::vector<tensor> gradients;
    int held = 0;
  };
  /// Offsets of an entry in its unit's allocations.
  struct entry_offsets {
    std::int64_t value, gradient;
  };

  tensor zeros(dtype type, std::int64_t n) {
    tensor out(pool_.allocate(std::size_t(n) * size_of(type)), type, {n});
    pool_.clear(out.raw(), out.bytes());
    return out;
  }
  std::byte* at(tensor& x, std::int64_t element) const {
    return x.raw() + std::size_t(element) * size_of(type_);
  }

  dtype type_;
  axis_ranks ranks_;
  memory_pool pool_;
  int replicas_;
  std::vector<parameter_entry> entries_;
  std::vector<page> pages_;
  std::vector<entry_offsets> offsets_;
  parameter_gate gate_;
  std::atomic<int>& fills_;
  std::function<void(int)> then_;
  int selected_ = 0;
};

}  // namespace

TEST_CASE("the previous state is kept in any store with rounded values, and refused in fp32",
          "[trainer][store]") {
  auto model = tests::tiny_gpts(4).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  worker_settings settings{.model = gpt_spec(model), .precision = dtype::bf16};
  std::atomic<int> fills = 0;
  settings.store = [&](const std::vector<unit_spec>& units,
                       int replicas,
                       memory_pool pool,
                       dtype of,
                       const axis_ranks& ranks) -> std::unique_ptr<parameter_store> {
    return std::make_unique<paged_store>(units, replicas, std::move(pool), of, ranks, fills);
  };
  tests::ranks judge({}, settings, kernels::backend::cpu);
  settings.keeps_previous = true;
  tests::ranks seen({}, settings, kernels::backend::cpu);
  seen.begin(0);
  for (std::uint64_t step = 1; step <= 2; ++step)
    CHECK(seen.step(step, 2).digests == judge.step(step, 2).digests);
  CHECK(seen.at({}).estate()->holds(1));
  paged_store pages({{"layer", {{.name = "gain", .extents = {37}}}}}, 1, {}, dtype::f32, {}, fills);
  const optimizer_state optimizer(pages, {}, whole_ranges(pages), {});
  CHECK_THROWS_MATCHES(optimizer.arrays(),
                       broken_promise,
                       Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith("OPTIMIZER-1")));
  settings.precision = dtype::f32;
  CHECK_THROWS_MATCHES(tests::ranks({}, settings, kernels::backend::cpu),
                       input_error,
                       Catch::Matchers::MessageMatches(Catch::Matchers::StartsWith(
                           "cannot keep the state of the previous step")));
}

TEST_CASE("training with another store gives the same bits", "[trainer][store]") {
  const auto type = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  const bool distributed = GENERATE(false, true), tied = GENERATE(false, true);
  CAPTURE(int(type), distributed, tied);
  auto model = tests::tiny_gpts(4).at("learned, layer norm, gelu tanh, biases, tied, dropout");
  model.tied_embeddings = tied;
  worker_settings settings{.model = gpt_spec(model),
                           .replicas = 2,
                           .precision = type,
                           .distributed_optimizer = distributed,
                           .bucket_size = 700,
                           .grain = 64};
  std::atomic<int> fills = 0;
  auto paged = settings;
  paged.store = [&](const std::vector<unit_spec>& units,
                    int replicas,
                    memory_pool pool,
                    dtype of,
                    const axis_ranks& ranks) -> std::unique_ptr<parameter_store> {
    return std::make_unique<paged_store>(units, replicas, std::move(pool), of, ranks, fills);
  };
  for (const int pipeline : {1, 2}) {
    const tests::grid grid{.pipeline = pipeline, .data = 2};
    tests::ranks judge(grid, settings, kernels::backend::cpu);
    tests::ranks seen(grid, paged, kernels::backend::cpu);
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const auto expected = judge.step(step, 2), found = seen.step(step, 2);
      for (std::size_t r = 0; r < expected.losses.size(); ++r)
        CHECK(found.losses[r].total == expected.losses[r].total);
      CHECK(total_norm(found.norms) == total_norm(expected.norms));
      CHECK(found.digests == expected.digests);
    }
    CHECK(seen.gathered() == judge.gathered());
    CHECK(seen.gathered(true) == judge.gathered(true));
  }
  CHECK(fills > 100);  // its copies were read
}
