#include "runtime/device/operation_timer.hpp"

#include "kernels/op/grouped_linear.hpp"
#include "kernels/op/linear.hpp"
#include "kernels/op/norm.hpp"
#include "kernels/op/sum.hpp"
#include "runtime/device/stream.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <numeric>
#include <vector>

using namespace troupe;
using namespace troupe::runtime;

namespace {

void multiply(stream& stream, std::int64_t R, std::int64_t N, std::int64_t K) {
  const std::vector<float> x(std::size_t(R * K), 0.5F), w(std::size_t(N * K), 0.25F);
  std::vector<float> y(std::size_t(R * N));
  stream.run(
      kernels::linear_forward<float>{y.data(), nullptr, x.data(), w.data(), nullptr, R, N, K});
}

double inside_ms(const operation_profile& of) {
  const auto all = of.times();
  return 1e3 * std::accumulate(all.begin(), all.end(), 0.0, [](double sum, const auto& x) {
           return sum + x.seconds;
         });
}

}  // namespace

TEST_CASE("the name of an operation includes its type") {
  CHECK(call_of(kernels::norm_forward<kernels::bf16>{}, true).kind.name == "norm_forward<bf16>");
  CHECK(call_of(kernels::add<float>{}, true).kind.name == "add<float>");
}

TEST_CASE("products of experts are one kind, however many rows they have") {
  const kernels::grouped_linear_forward<float> op{.R = 10, .E = 2, .N = 5, .K = 7};
  CHECK(call_of(op, true).kind.extents == std::array<std::int64_t, 3>{0, 5, 7});
}

TEST_CASE("operations are timed by kind and size, in training steps after the first two") {
  const auto profile = std::make_shared<operation_profile>();
  {
    stream stream(kernels::backend::reference, 1, {});
    stream.time_operations(profile);
    for (int step = 1; step <= 5; ++step) {
      stream.begin_step(true);
      multiply(stream, 3, 5, 7);
      multiply(stream, 3, 5, 7);
      multiply(stream, 2, 2, 2);
      stream.begin_step(false);  // validation
      multiply(stream, 9, 9, 9);
    }
    CHECK(profile->steps() == 0);  // reported when the stream ends
  }
  CHECK(profile->steps() == 3);
  auto all = profile->times();
  REQUIRE(all.size() == 2);
  if (all[0].kind.extents[0] != 3)
    std::swap(all[0], all[1]);
  CHECK(all[0].kind.name == "linear_forward<float>");
  CHECK(all[0].kind.extents == std::array<std::int64_t, 3>{3, 5, 7});
  CHECK(all[0].flops == 6 * 2 * 3 * 5 * 7);
  CHECK(all[0].bytes == 6 * 4 * (3 * 7 + 5 * 7 + 3 * 5));
  CHECK(all[0].calls == 6);
  CHECK(all[1].calls == 3);
  CHECK(all[0].seconds > 0);
  CHECK(profile->between_ms() >= 0);
  CHECK(profile->step_ms() == Catch::Approx(inside_ms(*profile) / 3 + profile->between_ms()));
}

TEST_CASE("a step during which the stream ends lasts until its last operation") {
  const auto profile = std::make_shared<operation_profile>();
  {
    stream stream(kernels::backend::reference, 1, {});
    stream.time_operations(profile);
    for (int step = 1; step <= 3; ++step) {
      stream.begin_step(true);
      for (int i = 0; i < 2000; ++i)  // more marks than the buffer of unread ones holds
        multiply(stream, 1, 1, 1);
    }
  }
  CHECK(profile->steps() == 1);
  REQUIRE(profile->times().size() == 1);
  CHECK(profile->times()[0].calls == 2000);
}
