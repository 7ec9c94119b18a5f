// Cases beyond the operation tester (op_tester_test.cpp): activations far from zero and of NaN,
// without and with weights of rows.

#include "tests/support/device_ops.hpp"
#include "tests/support/weighted_activation.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

namespace troupe::tests {

template <class T>
auto arrays(weighted_activation_memory<T>& m) {
  return std::tie(m.x, m.dy, m.y, m.dx, m.weight, m.dweight);
}
template <class T>
weighted_activation_memory<double> in_double(weighted_activation_memory<T>& m) {
  return with_arrays_of(weighted_activation_memory<double>{activation_memory<double>{
                            .R = m.R, .N = m.N, .kind = m.kind, .gated = m.gated}},
                        m);
}
}  // namespace troupe::tests

using namespace troupe;
using kernels::activation;
using tests::activation_memory;
using tests::error_of;
using tests::in_double;
using tests::on_device;
using tests::weighted_activation_memory;

namespace {

// A dozen roundings of 6e-8; the largest is that of the exponential's argument.
constexpr double rounding = 2e-6;

activation any_kind() {
  return GENERATE(from_range(kernels::every_activation));
}

}  // namespace

TEMPLATE_TEST_CASE("activations on a device are finite for large numbers and propagate NaN",
                   "[kernels][cuda]",
                   activation_memory<float>,
                   weighted_activation_memory<float>) {
  const bool gated = GENERATE(false, true);
  TestType m{activation_memory<float>{.R = 1, .N = 8, .kind = any_kind(), .gated = gated}};
  m.x = {-1e4f, -200, -90, -88, 88, 90, 200, 1e4f};
  m.x.resize(std::size_t(8 * kernels::fan_in(gated)), 1.0f);
  m.dy.assign(8, 1.0f);
  auto exact = in_double(m);
  on_device(m, m.forward());
  on_device(m, m.backward());
  kernels::reference::run(exact.forward());
  kernels::reference::run(exact.backward());
  CHECK(error_of(m.y, exact.y) < rounding);
  CHECK(error_of(m.dx, exact.dx) < rounding);
  if constexpr (requires { m.dweight; })
    CHECK(error_of(m.dweight, exact.dweight) < rounding);
  m.x.assign(m.x.size(), std::numeric_limits<float>::quiet_NaN());
  on_device(m, m.forward());
  on_device(m, m.backward());
  for (std::size_t i = 0; i < 8; ++i) {
    CHECK(std::isnan(m.y[i]));
    CHECK(std::isnan(m.dx[i]));
  }
  if constexpr (requires { m.dweight; })
    CHECK(std::isnan(m.dweight[0]));
}
