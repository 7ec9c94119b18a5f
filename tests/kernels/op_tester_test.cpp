// Runs the operation tester (op_tester.hpp) on the reference and cpu backends, for every family.

#include "tests/kernels/op_tester.hpp"

#include "kernels/backend/backend.hpp"
#include "kernels/cpu/amx.hpp"
#include "kernels/cpu/product.hpp"
#include "tests/kernels/cases/rope.hpp"
#include "tests/kernels/vector_targets.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstring>
#include <omp.h>
#include <set>

using namespace troupe;
using namespace troupe::tests;
using kernels::operation;
using kernels::operation_name;

namespace {

/// While alive, parallel regions run on one thread.
class one_thread {
 public:
  one_thread() { omp_set_max_active_levels(0); }
  ~one_thread() { omp_set_max_active_levels(before_); }
  one_thread(const one_thread&) = delete;
  one_thread& operator=(const one_thread&) = delete;

 private:
  int before_ = omp_get_max_active_levels();
};

class on_host : public tested_backend {
 public:
  /// `target`: the Highway instruction set; 0: this machine's best.
  explicit on_host(kernels::backend which, std::int64_t target = 0)
      : which_(which), target_(target) {}

  std::string name() const override {
    const vector_target now(target_);
    return which_ == kernels::backend::cpu ? kernels::instruction_set() : "reference";
  }
  tested_memory& memory() override { return host_memory(); }
  void run(const operation& op, int threads) override {
    const vector_target now(target_);
    const auto bytes = kernels::scratch(which_, op, threads);
    const auto scratch = host_memory().allocate(bytes);
    std::memset(scratch.get(), 0xFF, bytes);
    kernels::run(which_, op, {threads, {scratch.get(), bytes}});
  }
  void run_otherwise(const operation& op, int threads) override {
    const one_thread at_most;
    run(op, threads);
  }
  std::vector<int> team_sizes() const override {
    return which_ == kernels::backend::cpu ? std::vector{1, 3} : std::vector{1};
  }
  /// Attention with bf16 tiles rounds probabilities and their gradients before multiplying, so each
  /// term of a sum has a relative error of up to 2^-9. The probabilities of a row sum to one, so
  /// the magnitudes in o sum to at most the largest value. The terms of the gradients have both
  /// signs and random errors. The allowance is twice that.
  double roundings_between(operation_name name, kernels::element_type type) const override {
    const bool attention
        = name == operation_name::attention_forward || name == operation_name::attention_backward;
    return attention && type == kernels::element_type::bf16 && by_tiles() ? 2 : 0;
  }
  bool takes(const op_case&) const override { return true; }

 private:
  bool by_tiles() const {
    return which_ == kernels::backend::cpu && kernels::cpu::multiplies_tiles()
           && (target_ == 0 || target_ == HWY_AVX3);
  }

  kernels::backend which_;
  std::int64_t target_;
};

/// With sanitizers, which are much slower, each case runs on one backend. The backends take turns,
/// and each round starts with the next one, because families repeat their variations.
void ask(std::span<tested_backend* const> backends, const op_family& family) {
  std::size_t number = 0;
  for (const auto& one : family.cases) {
#ifdef TROUPE_SANITIZED
    const auto asked = backends.subspan((number + number / backends.size()) % backends.size(), 1);
#else
    const auto asked = backends;
#endif
    for (const auto& wrong : complaints_of(asked, one))
      FAIL_CHECK(wrong);
    ++number;
  }
  CHECK(number > 0);
}

}  // namespace

TEST_CASE("every operation on the cpu meets its contract with every instruction set",
          "[kernels][operations][cpu]") {
  const kernels::cpu::small_products_in_tiles all;
  for (const auto& family : every_family())
    DYNAMIC_SECTION(family.name) {
      std::vector<on_host> sets;
      for (const auto target : vector_targets())
        sets.emplace_back(kernels::backend::cpu, target);
      std::vector<tested_backend*> backends;
      for (auto& one : sets)
        backends.push_back(&one);
      ask(backends, family);
    }
}

TEST_CASE("every reference operation in float is the rounded result in double",
          "[kernels][operations][reference][unsanitized]") {
  for (const auto& family : every_family())
    DYNAMIC_SECTION(family.name) {
      on_host backend(kernels::backend::reference);
      tested_backend* const one = &backend;
      ask(std::span(&one, 1), family);
    }
}

TEST_CASE("every gradient agrees with finite differences", "[kernels][operations][gradient]") {
  for (const auto& family : every_family())
    DYNAMIC_SECTION(family.name) {
      for (const auto& one : family.gradients)
        for (const auto& wrong : complaints_of(one))
          FAIL_CHECK(wrong);
      SUCCEED();
    }
}

TEST_CASE("every operation has cases, except those with their own tests", "[kernels][operations]") {
  // narrow_cpu_test.cpp tests the casts with all 65,536 numbers, sample_cpu_test.cpp tests
  // sampling.
  std::set<operation_name> asked{
      operation_name::narrow, operation_name::widen, operation_name::sample_token};
  for (const auto& family : every_family())
    for (const auto& one : family.cases)
      asked.insert(one.op.name);
  for (int i = 0; i < int(operation_name::unknown); ++i) {
    INFO(text(operation_name(i)));
    CHECK(asked.contains(operation_name(i)));
  }
}

namespace {

enum class fault { wrong, beyond, untouched, unsteady, none };

/// A backend that corrupts the results of the reference's add.
class faulty : public on_host {
 public:
  explicit faulty(fault which) : on_host(kernels::backend::reference), which_(which) {}

  void run(const operation& op, int threads) override {
    on_host::run(op, threads);
    const auto& add = *static_cast<const kernels::add<float>*>(op.arguments);
    if (op.type != kernels::element_type::f32 || add.n == 0)
      return;
    if (which_ == fault::wrong)
      add.y[add.n - 1] *= 1 + 0x1p-20F;
    if (which_ == fault::beyond)
      add.y[add.n] = 0;
    if (which_ == fault::untouched)
      std::memset(add.y, 0xFF, sizeof(float));
    if (which_ == fault::unsteady)
      add.y[0] = std::nextafter(add.y[0], ++runs_ % 2 == 0 ? -9.0F : 9.0F);
  }

 private:
  fault which_;
  int runs_ = 0;
};

std::size_t complaints(fault which) {
  std::size_t out = 0;
  faulty backend(which);
  for (const auto& family : every_family())
    for (const auto& one : family.cases)
      if (one.op.name == operation_name::add && one.shape == "n 61")
        out += complaints_of(backend, one).size();
  return out;
}

}  // namespace

TEST_CASE("the tester finds wrong, out-of-bounds, missing and unrepeatable results",
          "[kernels][operations]") {
  CHECK(complaints(fault::none) == 0);
  CHECK(complaints(fault::wrong) > 0);
#ifndef __SANITIZE_ADDRESS__  // which reports it itself
  CHECK(complaints(fault::beyond) > 0);
#endif
  CHECK(complaints(fault::untouched) > 0);
  CHECK(complaints(fault::unsteady) > 0);
}

TEST_CASE("the tester finds a wrong gradient", "[kernels][operations]") {
  const rope_extents s{3, 2, 2, 5, 4, true};
  gradient_case turned{.shape = "", .forward = {s.turn(false)}, .backward = {s.turn(true, "dx")}};
  CHECK(complaints_of(turned).empty());
  turned.backward = {s.turn(false, "dx")};
  CHECK(complaints_of(turned).size() == 1);
}

TEST_CASE("the tester can reduce the thread count", "[kernels][operations]") {
  int threads = 0;
  const auto count = [&threads] {
    threads = 0;
#pragma omp parallel num_threads(3) reduction(+ : threads)
    threads += 1;
  };
  {
    const one_thread at_most;
    count();
    CHECK(threads == 1);
  }
  count();
  CHECK(threads == 3);
}
