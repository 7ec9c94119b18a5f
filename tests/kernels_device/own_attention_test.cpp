// Compares our attention on the tensor cores of a real device with the reference, in sizes that
// take too long on the emulated device.

#include "tests/support/attention_on_device.hpp"
#include "tests/support/device_tolerance.hpp"

#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using kernels::bf16;
using kernels::f16;
using kernels::cuda::own_kernels;
using tests::attention_memory;

namespace {

template <class T>
void check_on_device(const attention_memory<T>& m) {
  INFO("H " << m.H << " G " << m.G << " D " << m.D << " sequences " << m.query_lengths.size()
            << " of " << m.query_lengths[0] << " causal " << m.causal << " window " << m.window
            << " dropout " << m.p_drop);
  const auto attended = [&] { return attended_on_device(m, 0, false, own_kernels::tensor_cores); };
  const auto mine = attended();
  const auto judge = judged(mine);
  CHECK(tests::relative_error(mine.o, judge.o) < tests::roundings_of_attention<T>);
  CHECK(tests::relative_error(mine.lse, judge.lse) < tests::error_of_log_sum_exp);
  CHECK(tests::relative_error(mine.dq, judge.dq) < tests::roundings_of_attention<T>);
  CHECK(tests::relative_error(mine.dk, judge.dk) < tests::roundings_of_attention<T>);
  CHECK(tests::relative_error(mine.dv, judge.dv) < tests::roundings_of_attention<T>);
  for (int again = 0; again < 3; ++again) {
    const auto same = attended();
    CHECK(mine.o == same.o);
    CHECK(mine.lse == same.lse);
    CHECK(mine.dq == same.dq);
    CHECK(mine.dk == same.dk);
    CHECK(mine.dv == same.dv);
  }
}

}  // namespace

TEMPLATE_TEST_CASE("attention on a device's tensor cores agrees with the reference, reproducibly",
                   "[attention]",
                   bf16,
                   f16) {
  using sequences = attention_memory<TestType>;
  for (const std::int64_t D : {40, 64, 96, 128, 192, 256}) {
    sequences m{.H = 6,
                .G = 2,
                .D = D,
                .query_lengths = {517, 16, 0, 256},
                .key_lengths = {517, 16, 0, 256},
                .fused = true};
    check_on_device(m);
    m.p_drop = 0.2f;
    check_on_device(m);
    m.window = 100;
    check_on_device(m);
    check_on_device(sequences{.H = 2,
                              .G = 2,
                              .D = D,
                              .query_lengths = {200, 31},
                              .key_lengths = {700, 129},
                              .causal = false});
  }
}
