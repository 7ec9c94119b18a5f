#include "runtime/model/rotary.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe::runtime;

namespace {

gpt_config rotating(std::int64_t head_size, double base) {
  gpt_config x;
  x.head_size = head_size;
  x.position = position_embedding::rope;
  x.rotary_base = base;
  return x;
}

}  // namespace

TEST_CASE("wavelengths grow in equal ratios", "[rotary]") {
  auto x = rotating(64, 10000);
  const auto all = rotary_frequencies(x);
  REQUIRE(all.size() == 32);
  CHECK(all[0] == 1);
  CHECK(all[16] == 0.01F);
  x.rotary_percent = 0.25;
  CHECK(rotary_frequencies(x).size() == 8);
  x.rotary_interpolation = 4;
  CHECK(rotary_frequencies(x)[0] == 0.25F);
  x.position = position_embedding::none;
  CHECK(rotary_frequencies(x).empty());
}

// The values are Megatron-LM's, docs: megatron.md 2.18; it computes them in single precision.
TEST_CASE("Llama 3 keeps short wavelengths and stretches long ones", "[rotary]") {
  auto x = rotating(128, 500000);
  const auto plain = rotary_frequencies(x);
  x.scaling = rope_scaling::llama3;
  x.scaling_factor = 8;
  const auto all = rotary_frequencies(x);
  REQUIRE(all.size() == 64);
  CHECK(all[28] == Catch::Approx(3.211445995e-03).epsilon(1e-6));
  CHECK(all[29] == Catch::Approx(2.166570764e-03).epsilon(1e-6));
  CHECK(all[30] == Catch::Approx(1.371893568e-03).epsilon(1e-6));
  CHECK(all[63] == Catch::Approx(3.068925989e-07).epsilon(1e-6));
  CHECK(all[28] == plain[28]);
  CHECK(rotary_concentration(x) == 1);
}

TEST_CASE("YaRN keeps what turns often, stretches what turns less than once", "[rotary]") {
  auto x = rotating(128, 10000);
  const auto plain = rotary_frequencies(x);
  x.scaling = rope_scaling::yarn;
  x.scaling_factor = 4;
  x.scaling_positions = 4096;
  const auto all = rotary_frequencies(x);
  CHECK(all[20] == plain[20]);
  CHECK(all[21] < plain[21]);
  CHECK(all[45] > plain[45] / 4);
  CHECK(all[46] == plain[46] / 4);
  CHECK(rotary_concentration(x) == Catch::Approx(1 + 0.1 * std::log(4.0)));
  x.yarn_mscale_all = 1;
  CHECK(rotary_concentration(x) == 1);
}
