#include "runtime/tensor/tensor.hpp"

#include "runtime/tensor/moves.hpp"
#include "runtime/tensor/ticket.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <numeric>
#include <stdexcept>

using namespace troupe::runtime;
using Catch::Matchers::MessageMatches;
using Catch::Matchers::StartsWith;

namespace {

/// 0, 1, 2, ...
tensor counted(shape extents) {
  stream stream(troupe::kernels::backend::reference, 1, {});
  auto out = tensor::empty<float>(stream, extents);
  std::iota(out.data<float>(), out.data<float>() + out.size(), 0.0F);
  return out;
}

}  // namespace

TEST_CASE("a shape has extents, their product and a text", "[tensor]") {
  const shape x{2, 3, 5};
  CHECK(x.rank() == 3);
  CHECK(x[1] == 3);
  CHECK(x.size() == 30);
  CHECK(to_string(x) == "(2, 3, 5)");
  CHECK(shape{}.size() == 1);
  CHECK(to_string(shape{}) == "()");
  CHECK(x == shape{2, 3, 5});
  CHECK(x != shape{2, 15});
  CHECK_THROWS_AS((shape{1, 2, 3, 4, 5}), std::out_of_range);
}

TEST_CASE("element types have names and sizes", "[tensor]") {
  CHECK(size_of(dtype::f32) == 4);
  CHECK(size_of(dtype::bf16) == 2);
  CHECK(size_of(dtype::f16) == 2);
  CHECK(size_of(dtype::i32) == 4);
  CHECK(size_of(dtype::u64) == 8);
  CHECK(to_string(dtype::bf16) == "bf16");
  CHECK(to_string(dtype::f16) == "f16");
}

TEST_CASE("TENSOR-1: elements are read as their own type", "[tensor]") {
  const auto x = counted({4});
  CHECK(x.elements<float>().size() == 4);
  CHECK(x.bytes() == 16);
  CHECK_THROWS_MATCHES(
      x.data<std::int32_t>(), broken_promise, MessageMatches(StartsWith("TENSOR-1")));
  // An empty tensor can be read as any type: optional arguments of operations rely on it.
  CHECK(tensor().data<std::int32_t>() == nullptr);
  CHECK(!tensor());
}

TEST_CASE("TENSOR-2: a view has as many elements as its tensor, and shares them", "[tensor]") {
  auto x = counted({2, 6});
  const auto y = x.view({3, 4});
  CHECK(y.extents() == shape{3, 4});
  x.data<float>()[5] = 50;
  CHECK(y.data<float>()[5] == 50);
  CHECK_THROWS_MATCHES(x.view({3, 5}), broken_promise, MessageMatches(StartsWith("TENSOR-2")));
}

TEST_CASE("TENSOR-3: a slice is inside its tensor and keeps the memory alive", "[tensor]") {
  auto x = counted({2, 6});
  const auto y = x.slice(4, {2, 3});
  x = {};
  CHECK(y.elements<float>().front() == 4);
  CHECK(y.elements<float>().back() == 9);
  CHECK_NOTHROW(y.slice(6, {0}));
  for (const std::int64_t offset : {-1, 3, 6})
    CHECK_THROWS_MATCHES(
        y.slice(offset, {4}), broken_promise, MessageMatches(StartsWith("TENSOR-3")));
}

TEST_CASE("TENSOR-4: a tensor is filled as a whole, and read back", "[tensor]") {
  stream stream(troupe::kernels::backend::cpu, 1, {});
  const std::vector<float> values{1, 2, 3, 4, 5, 6};
  const auto x = uploaded(stream, values, {2, 3});
  CHECK(x.extents() == shape{2, 3});
  CHECK(elements_of<float>(stream, x) == values);
  const auto beside = copy_of(stream, x);
  CHECK(beside.raw() != x.raw());
  CHECK(elements_of<float>(stream, beside) == values);
  CHECK_THROWS_MATCHES(
      uploaded(stream, values, {7}), broken_promise, MessageMatches(StartsWith("TENSOR-4")));
}

TEST_CASE("BUNDLE-1: a bundle has the requested tensor", "[tensor]") {
  bundle x;
  x.add("hidden", counted({3}));
  x.add("positions", counted({2}));
  CHECK(x.size() == 2);
  CHECK(x.has("hidden"));
  CHECK(!x.has("labels"));
  CHECK(x.at("positions").size() == 2);
  CHECK_THROWS_MATCHES(
      x.at("labels"),
      broken_promise,
      MessageMatches(StartsWith("BUNDLE-1") && Catch::Matchers::EndsWith(": labels")));
  CHECK(x.begin()->first == "hidden");  // in insertion order
}
