#include "runtime/autograd/tape.hpp"

#include "runtime/autograd/ops.hpp"
#include "runtime/core/error.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "tests/support/layer_store.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <array>
#include <cmath>
#include <string>

using namespace troupe::runtime;
namespace kernels = troupe::kernels;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

/// A store that logs its calls.
class diary_store final : public troupe::tests::layer_store {
 public:
  explicit diary_store(std::string& diary) : diary_(diary) {}
  void acquire(int unit) override { diary_ += "+" + std::to_string(unit) + " "; }
  void release(int unit) override { diary_ += "-" + std::to_string(unit) + " "; }
  dtype type() const override { return dtype::f32; }
  const void* value(int, int) const override { return nullptr; }
  float* gradient(int, int, int) override { return nullptr; }
  void emit(int unit) override { diary_ += "emit" + std::to_string(unit) + " "; }

 private:
  std::string& diary_;
};

struct diary_node final : node {
  diary_node(std::string& to, std::string called) : diary(to), name(std::move(called)) {}
  void input_gradients(tape&) override { diary += "I" + name + " "; }
  void weight_gradients(tape&) override { diary += "W" + name + " "; }
  std::string& diary;
  std::string name;
};

struct fixture {
  std::string diary;
  diary_store store{diary};
  troupe::runtime::stream stream{kernels::backend::reference, 1, {}};
  tape under_test{stream, store, {}};

  /// Records a segment of two nodes.
  void segment(int unit, const std::string& a, const std::string& b) {
    under_test.begin_segment(unit);
    under_test.record(std::make_unique<diary_node>(diary, a));
    under_test.record(std::make_unique<diary_node>(diary, b));
    under_test.end_segment();
  }
  std::string told() { return std::exchange(diary, {}); }
};

tensor numbers(stream& stream, std::initializer_list<float> x) {
  auto out = tensor::empty<float>(stream, {std::int64_t(x.size())});
  std::copy(x.begin(), x.end(), out.data<float>());
  return out;
}

}  // namespace

TEST_CASE_METHOD(fixture,
                 "the backward pass of a segment runs in reverse, with its unit acquired",
                 "[tape]") {
  segment(3, "a", "b");
  CHECK(told() == "+3 -3 ");
  under_test.input_gradients(0);
  CHECK(told() == "+3 Ib Ia -3 ");
  under_test.weight_gradients(0);
  CHECK(told() == "+3 Wb Wa emit3 -3 ");
}

TEST_CASE_METHOD(fixture, "a unit is emitted after the last of its segments", "[tape]") {
  segment(0, "a", "b");
  segment(1, "c", "d");
  segment(1, "e", "f");
  CHECK(under_test.segments() == 3);
  for (int s = 2; s >= 0; --s)
    under_test.input_gradients(s);
  told();
  under_test.weight_gradients(2);
  CHECK(told() == "+1 Wf We -1 ");
  under_test.weight_gradients(1);
  CHECK(told() == "+1 Wd Wc emit1 -1 ");
  under_test.weight_gradients(0);
  CHECK(told() == "+0 Wb Wa emit0 -0 ");
}

TEST_CASE_METHOD(fixture, "TAPE-1: segments do not overlap", "[tape]") {
  under_test.begin_segment(0);
  CHECK_THROWS_MATCHES(
      under_test.begin_segment(1), broken_promise, MessageMatches(StartsWith("TAPE-1")));
  under_test.end_segment();
  CHECK_NOTHROW(under_test.begin_segment(1));
}

TEST_CASE_METHOD(fixture, "TAPE-2: a segment gives its input gradients once", "[tape]") {
  segment(0, "a", "b");
  under_test.input_gradients(0);
  CHECK_THROWS_MATCHES(
      under_test.input_gradients(0), broken_promise, MessageMatches(StartsWith("TAPE-2")));
}

TEST_CASE_METHOD(fixture, "TAPE-3: weight gradients come once, after input gradients", "[tape]") {
  segment(0, "a", "b");
  CHECK_THROWS_MATCHES(
      under_test.weight_gradients(0), broken_promise, MessageMatches(StartsWith("TAPE-3")));
  under_test.input_gradients(0);
  under_test.weight_gradients(0);
  CHECK_THROWS_MATCHES(
      under_test.weight_gradients(0), broken_promise, MessageMatches(StartsWith("TAPE-3")));
}

TEST_CASE("a tape without recording keeps no nodes and computes no gradients", "[tape]") {
  std::string diary;
  diary_store store(diary);
  stream stream(kernels::backend::reference, 1, {});
  tape under_test(stream, store, {.recording = false});
  under_test.begin_segment(0);
  under_test.record(std::make_unique<diary_node>(diary, "a"));
  CHECK(under_test.make(numbers(stream, {1}), placement::replicated).gradient == nullptr);
  under_test.end_segment();
  under_test.input_gradients(0);
  CHECK(diary == "+0 -0 +0 -0 ");
}

TEST_CASE("gradients of a variable are added up, without changes to shared tensors", "[tape]") {
  std::string diary;
  diary_store store(diary);
  stream stream(kernels::backend::reference, 1, {});
  tape under_test(stream, store, {});
  const auto x = under_test.make(numbers(stream, {0, 0}), placement::replicated);
  const auto shared = numbers(stream, {1, 2});
  under_test.add(*x.gradient, shared);
  CHECK(x.gradient->sum.raw() == shared.raw());
  under_test.add(*x.gradient, numbers(stream, {10, 20}));
  under_test.add(*x.gradient, numbers(stream, {100, 200}));
  CHECK(x.gradient->sum.elements<float>()[1] == 222);
  CHECK(shared.elements<float>()[1] == 2);
}

/// One weight (2, 2) for every product; accumulates its gradient.
class one_weight_store final : public troupe::tests::layer_store {
 public:
  one_weight_store() : layer_store(1) {}
  void acquire(int) override {}
  void release(int) override {}
  dtype type() const override { return dtype::f32; }
  const void* value(int, int) const override { return weight; }
  float* gradient(int, int, int) override { return sums; }
  void emit(int) override {}
  float weight[4] = {0.5F, -1, 2, 0.25F}, sums[4] = {};
};

// The product's backward pass includes the activation's; the other user's does not.
TEST_CASE("gradients with respect to an activation's result and input are combined", "[tape]") {
  // Both users of y together, and each alone: the backward pass is linear in its gradients.
  const auto sums_of = [](bool by_product, bool by_function) {
    one_weight_store store;
    stream stream(kernels::backend::reference, 1, {});
    tape under_test(stream, store, {});
    const auto x = under_test.make(numbers(stream, {0.3F, -0.7F}).view({1, 2}),
                                   placement::replicated_partial_gradient);
    under_test.begin_segment(0);
    const auto y
        = linear(under_test, x, product::column, 2, 0, no_parameter, kernels::epilogue::gelu_tanh);
    int looked = 0;
    under_test.record([dy = y.gradient, by_product, by_function, &looked](tape&) {
      // Both users' backward passes have run, that of the activation has not.
      CHECK(bool(dy->sum_of_z) == by_product);
      CHECK(bool(dy->sum) == by_function);
      ++looked;
    });
    if (by_product) {
      const auto out = linear(under_test, y, product::row, 2, 0, no_parameter);
      out.gradient->sum = numbers(stream, {1, 3}).view({1, 2});
    }
    if (by_function)
      under_test.record([dy = y.gradient, &stream](tape& at) {
        at.add(*dy, numbers(stream, {5, -2}).view({1, 2}));
      });
    under_test.end_segment();
    under_test.input_gradients(0);
    CHECK(looked == 1);
    CHECK(!y.gradient->z);
    const auto dx = x.gradient->sum.elements<float>();
    return std::array{dx[0], dx[1]};
  };
  const auto both = sums_of(true, true), one = sums_of(true, false), other = sums_of(false, true);
  // Numbers of at most 10 in fp32: 1e-6 each.
  const auto gelu_slope = [](double z) {
    const double inner = std::sqrt(2 / M_PI) * (z + 0.044715 * z * z * z), t = std::tanh(inner);
    return 0.5 * (1 + t) + 0.5 * z * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * z * z);
  };
  const double z[2] = {0.5 * 0.3 + 1 * 0.7, 2 * 0.3 - 0.25 * 0.7};
  const double dz[2]
      = {(0.5 * 1 + 2 * 3) * gelu_slope(z[0]), (-1 * 1 + 0.25 * 3) * gelu_slope(z[1])};
  const double dx[2] = {0.5 * dz[0] + 2 * dz[1], -1 * dz[0] + 0.25 * dz[1]};
  for (std::size_t i = 0; i < 2; ++i) {
    CHECK(std::abs(one[i] - dx[i]) < 1e-5);
    CHECK(std::abs(both[i] - (one[i] + other[i])) < 1e-5);
    CHECK(other[i] != 0);
  }
}

TEST_CASE("CACHE-1: decoding has no backward pass", "[tape]") {
  std::string diary;
  diary_store store(diary);
  stream stream(kernels::backend::reference, 1, {});
  tape under_test(stream, store, {});
  attention_cache cache;
  const auto x = under_test.make(numbers(stream, {1}), placement::feature_sharded);
  const auto refused = MessageMatches(StartsWith("CACHE-1"));
  CHECK_THROWS_MATCHES(cached_attention(under_test, x, {}, {}, cache), broken_promise, refused);
  CHECK_THROWS_MATCHES(absorbed_qkv(under_test, x, x, x, 0, {}), broken_promise, refused);
  CHECK_THROWS_MATCHES(absorbed_output(under_test, x, 0, {}), broken_promise, refused);
}
