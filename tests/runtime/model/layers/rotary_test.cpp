#include "runtime/model/layers/rotary.hpp"

#include "runtime/file/file.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <nlohmann/json.hpp>

using namespace troupe::runtime;

namespace {

rotary_spec rotating(std::int64_t head_size, double base) {
  return {.head_size = head_size, .base = base};
}

/// A case of golden.json; missing fields have the defaults of rotary_spec.
rotary_spec described(const nlohmann::json& c) {
  auto x = rotating(c["head_size"], c["base"]);
  const auto scaling = c.value("scaling", "none");
  x.scaling = scaling == "llama3" ? rope_scaling::llama3
              : scaling == "yarn" ? rope_scaling::yarn
                                  : rope_scaling::none;
  x.percent = c.value("percent", x.percent);
  x.interpolation = c.value("interpolation", x.interpolation);
  x.factor = c.value("factor", x.factor);
  x.positions = c.value("positions", x.positions);
  x.llama3_low = c.value("low", x.llama3_low);
  x.llama3_high = c.value("high", x.llama3_high);
  x.yarn_fast = c.value("fast", x.yarn_fast);
  x.yarn_slow = c.value("slow", x.yarn_slow);
  x.yarn_mscale = c.value("mscale", x.yarn_mscale);
  x.yarn_mscale_all = c.value("mscale_all", x.yarn_mscale_all);
  x.yarn_round = c.value("round", x.yarn_round);
  return x;
}

}  // namespace

TEST_CASE("wavelengths grow in equal ratios", "[rotary]") {
  auto x = rotating(64, 10000);
  const auto all = rotary_frequencies(x);
  REQUIRE(all.size() == 32);
  CHECK(all[0] == 1);
  CHECK(all[16] == 0.01F);
  x.percent = 0.25;
  CHECK(rotary_frequencies(x).size() == 8);
  x.interpolation = 4;
  CHECK(rotary_frequencies(x)[0] == 0.25F);
}

// The expected values come from Megatron-LM, in single precision.
TEST_CASE("Llama 3 scaling keeps short wavelengths and stretches long ones", "[rotary]") {
  auto x = rotating(128, 500000);
  const auto plain = rotary_frequencies(x);
  x.scaling = rope_scaling::llama3;
  x.factor = 8;
  const auto all = rotary_frequencies(x);
  REQUIRE(all.size() == 64);
  CHECK(all[28] == Catch::Approx(3.211445995e-03).epsilon(1e-6));
  CHECK(all[29] == Catch::Approx(2.166570764e-03).epsilon(1e-6));
  CHECK(all[30] == Catch::Approx(1.371893568e-03).epsilon(1e-6));
  CHECK(all[63] == Catch::Approx(3.068925989e-07).epsilon(1e-6));
  CHECK(all[28] == plain[28]);
  CHECK(rotary_concentration(x) == 1);
}

TEST_CASE("YaRN keeps fast channels and stretches those with less than one rotation", "[rotary]") {
  auto x = rotating(128, 10000);
  const auto plain = rotary_frequencies(x);
  x.scaling = rope_scaling::yarn;
  x.factor = 4;
  x.positions = 4096;
  const auto all = rotary_frequencies(x);
  CHECK(all[20] == plain[20]);
  CHECK(all[21] < plain[21]);
  CHECK(all[45] > plain[45] / 4);
  CHECK(all[46] == plain[46] / 4);
  CHECK(rotary_concentration(x) == Catch::Approx(1 + 0.1 * std::log(4.0)));
  CHECK(latent_concentration(x) == 1);
  x.yarn_mscale_all = 0.5;
  CHECK(latent_concentration(x) == Catch::Approx(std::pow(1 + 0.05 * std::log(4.0), 2)));
  x.yarn_mscale_all = 1;
  CHECK(rotary_concentration(x) == 1);
  // DeepSeek-V2
  x.factor = 40;
  x.yarn_mscale = x.yarn_mscale_all = 0.707;
  CHECK(rotary_concentration(x) == 1);
  CHECK(latent_concentration(x) == Catch::Approx(std::pow(1 + 0.0707 * std::log(40.0), 2)));
}

// Both libraries compute in single precision: a power and some products, the last of which
// subtracts. That costs some units in the last place (6e-8 each).
TEST_CASE("angles equal those of megatron-core and transformers", "[rotary][golden]") {
  const auto golden = nlohmann::json::parse(
      read_text(troupe::tests::source_dir() + "/tests/golden/rotary/golden.json"));
  REQUIRE(golden["cases"].size() >= 18);
  for (const auto& c : golden["cases"]) {
    INFO(c.dump().substr(0, 120));
    const auto x = described(c);
    const auto found = rotary_frequencies(x);
    const auto expected = c["frequencies"].get<std::vector<float>>();
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      CHECK(found[i] == Catch::Approx(expected[i]).epsilon(2e-6));
    CHECK(rotary_concentration(x) == Catch::Approx(c["concentration"].get<double>()));
  }
}
