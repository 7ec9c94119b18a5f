#include "kernels/reference/reference.hpp"
#include "tests/support/on_cpu.hpp"
#include "tests/support/ops.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

using namespace troupe;
using tests::on_cpu;
using tests::relative_error;

namespace {

struct shape {
  std::int64_t R, G, heads, D, rotated;
};

// One pair; half a head; half of a vector; more pairs than are held at once.
const auto shapes = {shape{1, 1, 1, 2, 2},
                     {5, 2, 3, 22, 14},
                     {3, 2, 2, 80, 32},
                     {67, 3, 5, 64, 64},
                     {2, 1, 2, 1100, 1066}};

}  // namespace

TEST_CASE("rope on the cpu agrees with the reference", "[kernels][cpu]") {
  const auto [R, G, heads, D, rotated] = GENERATE_REF(values(shapes));
  const bool interleaved = GENERATE(false, true), backward = GENERATE(false, true);
  tests::rope_memory<float> a{
      .R = R, .G = G, .heads = heads, .D = D, .rotated = rotated, .interleaved = interleaved};
  a.position.front() = 1000003;  // far beyond where a float knows the angle
  auto b = a;
  kernels::reference::run(a.turn(backward));
  on_cpu(b.turn(backward), 2);
  CHECK(relative_error(b.x, a.x) < 3e-7);  // a sine and a cosine, two products, one sum
}

TEST_CASE("rope on the cpu is undone by turning back", "[kernels][cpu]") {
  tests::rope_memory<float> a{.R = 7, .G = 2, .heads = 3, .D = 22, .rotated = 14};
  const auto before = a.x;
  on_cpu(a.turn());
  CHECK(relative_error(a.x, before) > 0.1);
  on_cpu(a.turn(true));
  CHECK(relative_error(a.x, before) < 5e-7);
}

TEST_CASE("rope on the cpu has the same bits whatever the number of threads", "[kernels][cpu]") {
  tests::rope_memory<float> one{.R = 67, .G = 3, .heads = 5, .D = 64, .rotated = 64}, three = one;
  on_cpu(one.turn(), 1);
  on_cpu(three.turn(), 3);
  CHECK(one.x == three.x);
}
