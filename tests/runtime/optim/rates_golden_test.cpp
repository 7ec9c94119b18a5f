// Learning rates and weight decays, compared with Megatron-LM's scheduler.

#include "runtime/file/file.hpp"
#include "runtime/optim/schedules.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <nlohmann/json.hpp>

using namespace troupe::runtime;
using Catch::Approx;
using nlohmann::json;

TEST_CASE("learning rates and weight decays equal those of Megatron-LM's scheduler", "[optim]") {
  const auto golden
      = json::parse(read_text(troupe::tests::source_dir() + "/tests/golden/optim/rates.json"));
  const std::vector<std::int64_t> samples = golden["samples"];
  REQUIRE(golden["cases"].size() == 15);
  for (const auto& x : golden["cases"]) {
    CAPTURE(x["name"].get<std::string>());
    const auto& s = x["settings"];
    rate_schedule rate{.maximum = s["max_lr"],
                       .minimum = s["min_lr"],
                       .warmup_start = s["init_lr"],
                       .warmup = s["lr_warmup_steps"],
                       .decay = s["lr_decay_steps"],
                       .style = decay_style_from(s["lr_decay_style"].get<std::string>()).value()};
    if (rate.style == decay_style::wsd) {
      rate.end_style = wsd_style_from(s["lr_wsd_decay_style"].get<std::string>()).value();
      rate.end_decay = s["wsd_decay_steps"];
    }
    const bool decoupled = !x["group"].empty();
    if (decoupled) {
      rate.decoupled_maximum = x["group"]["max_lr"];
      rate.decoupled_minimum = x["group"].value("min_lr", rate.minimum);
    }
    const weight_decay_schedule decay{
        .start = s["start_wd"],
        .end = s["end_wd"],
        .style = increase_style_from(s["wd_incr_style"].get<std::string>()).value(),
        .samples = s["wd_incr_steps"]};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CAPTURE(samples[i]);
      // Both compute in double; square roots and powers can be rounded differently.
      CHECK(
          (decoupled ? decoupled_learning_rate(rate, samples[i]) : learning_rate(rate, samples[i]))
          == Approx(x["rates"][i].get<double>()).epsilon(1e-14));
      CHECK(weight_decay(decay, samples[i]) == Approx(x["decays"][i].get<double>()).epsilon(1e-14));
    }
  }
}
