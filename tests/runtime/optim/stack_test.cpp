// Stacks of matrices, sharded over expert and expert tensor ranks, with a distributed optimizer.

#include "runtime/collective/local/local_group.hpp"
#include "runtime/optim/optimizer_state.hpp"
#include "runtime/parameters/initial_values.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

using namespace troupe::runtime;
using troupe::tests::normal;
using troupe::tests::relative_error;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t grain = 20, experts = 4;

parameter_spec stack(const std::string& name,
                     std::int64_t rows,
                     std::int64_t columns,
                     parameter_placement lies) {
  return {.name = name,
          .extents = {experts, rows, columns},
          .initial = distribution::normal(1),
          .decays = true,
          .stacked = true,
          .placements = of_experts({{axis::expert, row_sharded()}, {axis::expert_tensor, lies}})};
}

/// Matrices that are not whole grains, and frozen ones.
std::vector<unit_spec> units() {
  auto frozen = stack("frozen", 2, 16, {.dimension = 2});
  frozen.frozen = true;
  return {{"layer",
           {stack("fc1", 4, 16, {.dimension = 1, .sections = 2}),
            stack("fc2", 8, 12, {.dimension = 2}),
            frozen}}};
}

struct layout {
  int expert = 1, tensor = 1;
  int shares = 1;  ///< ranks that share the optimizer state

  int size() const { return expert * tensor * shares; }
};

struct job_state {
  square_norms norms;
  std::map<std::string, digest> digests;
  std::map<std::string, std::vector<float>> weights;  ///< whole parameters
};

/// For each element of a rank's part, in storage order, its index in the whole parameter.
std::vector<std::int64_t> places_of(const parameter_entry& e) {
  std::vector<std::int64_t> all(std::size_t(e.spec.extents.size())), out(std::size_t(e.valid));
  std::iota(all.begin(), all.end(), 0);
  auto* to = out.data();
  for (const auto& part : e.boxes) {
    copy_common(whole(e.spec.extents), all.data(), part, to, sizeof *to);
    to += part.size();
  }
  return out;
}

/// The ends of the ranges of each entry, by owner.
optimizer_groups groups_of(const parameter_store& store,
                           const std::vector<bucket>& buckets,
                           int shares,
                           communicator& owners,
                           communicator& tensor) {
  optimizer_groups out;
  out.along[axis::expert_tensor] = &tensor;
  out.of_entry.resize(store.entries().size());
  for (auto& x : out.of_entry)
    x = {&owners, std::vector<std::int64_t>(std::size_t(shares), 0)};
  for (int s = 0; s < shares; ++s) {
    for (auto& x : out.of_entry)
      x.ends[std::size_t(s)] = s == 0 ? 0 : x.ends[std::size_t(s) - 1];
    for (const auto& x : owned_ranges(store, buckets, [=](axis_set) { return s; }))
      out.of_entry[std::size_t(x.entry)].ends[std::size_t(s)] = x.end;
  }
  return out;
}

/// Three steps of one rank, added to `to`.
void train(const axis_ranks& at,
           int share,
           int shares,
           const optimizer_settings& settings,
           dtype type,
           communicator& owners,
           communicator& tensor,
           std::mutex& mutex,
           job_state& to) {
  stream stream(kernels::backend::cpu, 1, {});
  resident_store store(units(), 1, {}, type, at);
  const auto buckets = make_buckets(
      store, 1 << 20, [=](axis_set) { return shares; }, grain);
  optimizer_state optimizer(store,
                            settings,
                            owned_ranges(store, buckets, [=](axis_set) { return share; }),
                            {},
                            grain,
                            groups_of(store, buckets, shares, owners, tensor));
  for (const auto& e : store.entries()) {
    const auto values = initial_values(e, 5);
    store.set(e, 0, values);
    optimizer.set_weights(e.index, 0, values);
  }
  square_norms norms;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    for (const auto& e : store.entries()) {
      if (e.spec.frozen)
        continue;
      const auto all = normal<float>(std::size_t(e.spec.extents.size()),
                                     std::uint32_t(100 * step) + std::uint32_t(e.index));
      auto* gradient = static_cast<parameter_store&>(store).gradients(0, e.index);
      for (const auto i : places_of(e))
        *gradient++ = all[std::size_t(i)];
    }
    norms = optimizer.norms(stream);
    optimizer.update(stream, {.step = step, .learning_rate = 0.1, .gradient_scale = 0.7});
  }
  const auto digests = optimizer.digests(stream);
  const std::lock_guard lock(mutex);
  add_to(to.norms, norms);
  for (const auto& [name, part] : digests.own)
    to.digests[name] += part;
  for (const auto& x : optimizer.parts()) {
    const auto& e = store.entries()[std::size_t(x.range.entry)];
    if (e.spec.frozen)
      continue;
    auto& all = to.weights[e.spec.name];
    all.resize(std::size_t(e.spec.extents.size()));
    const auto places = places_of(e);
    const auto values = optimizer.weights(x);
    for (std::size_t i = 0; i < values.size(); ++i)
      all[std::size_t(places[std::size_t(x.range.begin) + i])] = values[i];
  }
}

job_state trained(const layout& by, const optimizer_settings& settings, dtype type) {
  job_state out;
  std::mutex mutex;
  std::exception_ptr failure;
  cancel_token token;
  std::vector<std::shared_ptr<local_group>> owners, tensors;
  for (int i = 0; i < by.expert * by.tensor; ++i)
    owners.push_back(std::make_shared<local_group>(axis::expert_data, by.shares, token));
  for (int i = 0; i < by.expert * by.shares; ++i)
    tensors.push_back(std::make_shared<local_group>(axis::expert_tensor, by.tensor, token));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < by.size(); ++rank)
    threads.emplace_back([&, rank] {
      const int e = rank / (by.tensor * by.shares), t = rank / by.shares % by.tensor;
      const int share = rank % by.shares;
      const axis_ranks at{{axis::expert, {e, by.expert}}, {axis::expert_tensor, {t, by.tensor}}};
      try {
        local_communicator state(owners[std::size_t(e * by.tensor + t)], share);
        local_communicator tensor(tensors[std::size_t(e * by.shares + share)], t);
        train(at, share, by.shares, settings, type, state, tensor, mutex, out);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        token.cancel();
      }
    });
  for (auto& t : threads)
    t.join();
  if (failure)
    std::rethrow_exception(failure);
  return out;
}

}  // namespace

TEST_CASE("STACK-1: norms, digests and updates of a stack do not depend on who has its matrices",
          "[optim][invariant]") {
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  const auto type = GENERATE(false, true) ? dtype::bf16 : dtype::f32;
  const int tensor = GENERATE(1, 2);
  CAPTURE(int(kind), to_string(type), tensor);
  const optimizer_settings settings{.epsilon = 1e-6, .weight_decay = 0.3, .kind = kind};
  const auto judge = trained({1, tensor, 1}, settings, type);
  REQUIRE(judge.weights.size() == 2);
  REQUIRE(judge.digests.size() == 3);
  for (const int expert : {1, 2, 4})
    for (const int shares : {1, 2, 3}) {
      CAPTURE(expert, shares);
      const auto found = trained({expert, tensor, shares}, settings, type);
      CHECK(found.norms == judge.norms);
      CHECK(found.digests == judge.digests);
      CHECK(found.weights == judge.weights);
    }
}

TEST_CASE("expert tensor ranks update a stack as one rank does", "[optim]") {
  const auto kind = optimizer_kind(GENERATE(0, 1, 2, 3));
  const auto mode = muon_tensor_mode(GENERATE(1, 2));  // duplicated, distributed
  if (kind != optimizer_kind::muon && mode != muon_tensor_mode::duplicated)
    return;
  CAPTURE(int(kind), int(mode));
  const optimizer_settings settings{.kind = kind, .muon = {.tensor_mode = mode}};
  const auto judge = trained({}, settings, dtype::f32);
  for (const int expert : {1, 2}) {
    const auto found = trained({expert, 2, 2}, settings, dtype::f32);
    for (const auto& [name, values] : judge.weights) {
      CAPTURE(name, expert);
      if (mode == muon_tensor_mode::duplicated)
        CHECK(found.weights.at(name) == values);
      else  // Newton-Schulz steps enlarge rounding errors of 6e-8 a few hundred times
        CHECK(relative_error(found.weights.at(name), values) < 1e-4);
    }
    // Grains are others, and the square norm of each is rounded to f64.
    for (const auto& [name, square] : judge.norms)
      CHECK(std::abs(found.norms.at(name).value() / square.value() - 1) < 1e-14);
  }
}

TEST_CASE("muon updates a matrix of a stack as it updates that matrix alone", "[optim]") {
  const optimizer_settings settings{.weight_decay = 0.3, .kind = optimizer_kind::muon};
  const auto all = stack("fc1", 4, 8, {});
  std::vector<parameter_spec> alone;
  for (std::int64_t e = 0; e < experts; ++e) {
    alone.push_back(one_of(all));
    alone.back().name += std::to_string(e);
  }
  stream stream(kernels::backend::cpu, 1, {});
  resident_store together({{"layer", {all}}}, 1, {}), apart({{"layer", alone}}, 1, {});
  optimizer_state first(together, settings, whole_ranges(together), {}),
      second(apart, settings, whole_ranges(apart), {});
  CHECK(first.parts().size() == std::size_t(experts));
  constexpr std::int64_t each = 4 * 8;
  const auto values = normal<float>(experts * each, 1),
             gradients = normal<float>(experts * each, 2);
  const auto matrix = [](const std::vector<float>& of, std::int64_t e) {
    return std::span(of).subspan(std::size_t(e * each), std::size_t(each));
  };
  first.set_weights(0, 0, values);
  std::copy(gradients.begin(), gradients.end(), together.gradients(0).begin());
  for (int e = 0; e < int(experts); ++e) {
    second.set_weights(e, 0, matrix(values, e));
    const auto from = matrix(gradients, e);
    std::copy(from.begin(), from.end(), static_cast<parameter_store&>(apart).gradients(0, e));
  }
  for (auto* const x : {&first, &second})
    x->update(stream, {.step = 1, .learning_rate = 0.1});
  for (std::size_t e = 0; e < std::size_t(experts); ++e) {
    const auto a = first.weights(first.parts()[e]), b = second.weights(second.parts()[e]);
    CHECK(std::equal(a.begin(), a.end(), b.begin(), b.end()));
    CHECK(!std::equal(a.begin(), a.end(), matrix(values, std::int64_t(e)).begin()));
  }
}

TEST_CASE("digests name a matrix by its number in the model, and count from its beginning",
          "[optim]") {
  resident_store store(
      units(), 1, {}, dtype::f32, {{axis::expert, {1, 2}}, {axis::expert_tensor, {1, 2}}});
  const optimizer_state optimizer(store, {}, whole_ranges(store), {}, grain);
  const auto told = optimizer.digested();
  REQUIRE(told.size() == 6);  // two matrices of each
  for (std::size_t i = 0; i < told.size(); ++i) {
    CAPTURE(i);
    const auto matrix = std::int64_t(2 + i % 2);
    CHECK(told[i].shard == 2 * matrix + 1);  // each has two shards
    CHECK(told[i].begin == 0);
    CHECK(told[i].end == std::array{4 * 16, 8 * 12, 2 * 16}.at(i / 2) / 2);
  }
}
