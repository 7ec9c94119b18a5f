#include "actors/command/cluster_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "tests/support/places.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <filesystem>
#include <string>

using namespace troupe;
using namespace troupe::command;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

std::string folder() {
  return tests::source_dir() + "/examples/clusters/";
}

/// The description of an A100 cluster with the first `old` replaced.
std::string with(const std::string& old, const std::string& by) {
  auto out = runtime::read_text(folder() + "a100.yaml");
  const auto at = out.find(old);
  REQUIRE(at != std::string::npos);
  return out.replace(at, old.size(), by);
}

void refuses(const std::string& text, const std::string& line, const std::string& says) {
  INFO(says);
  CHECK_THROWS_MATCHES(
      parse_cluster(text, "a.yaml"),
      runtime::input_error,
      MessageMatches(ContainsSubstring("a.yaml, line " + line) && ContainsSubstring(says)));
}

}  // namespace

TEST_CASE("every cluster of the examples can be read, with its units", "[cluster]") {
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder())) {
    INFO(file.path().string());
    const auto x = read_cluster(file.path().string());
    CHECK(x.device.memory >= 80e9);
    CHECK(x.device.bf16 > x.device.f32);
    CHECK(x.device.fp8.has_value() == (x.name != "A100"));
    CHECK(x.inside.bandwidth > x.between.bandwidth);
    CHECK(x.device_seconds_between_failures > 1e8);
    ++found;
  }
  CHECK(found == 6);
  const auto x = read_cluster(folder() + "a100.yaml");
  CHECK(x.name == "A100");
  CHECK(x.devices() == 3072);
  CHECK(x.device.bandwidth == Approx(2.039e12));
  CHECK(x.device.peak(runtime::dtype::bf16) == Approx(312e12));
  CHECK(x.device.peak(runtime::dtype::f16) == Approx(312e12));
  CHECK(x.between.latency == Approx(6e-6));
  CHECK(x.job_restart == 600);
  CHECK(!x.measured.products);
}

TEST_CASE("a wrong description is refused by line and key", "[cluster]") {
  refuses(with("hosts: 384", "host: 384"), "10", "`host` is unknown");
  refuses(with("hosts: 384", "hosts: 38.4"), "10", "a whole number");
  refuses(with("hosts: 384", "hosts: 0"), "10", "out of range");
  refuses(with("80 GB\n  bandwidth", "80\n  bandwidth"), "6", "with a unit of GB");
  refuses(with("80 GB\n  bandwidth", "80 GiB\n  bandwidth"), "6", "`device.memory` is '80 GiB'");
  refuses(with("312 TFLOP/s\n", "-312 TFLOP/s\n"), "9", "out of range");
  refuses(with("312 TFLOP/s\n", "nan TFLOP/s\n"), "9", "out of range");
  refuses(with("6 us", "6 s"), "17", "`between.latency` is '6 s', which is out of range");
  refuses(with("devices-per-host: 8", "devices-per-host: 3000"), "11", "out of range");
  refuses(with("hosts: 384", "measured: 0.7\nhosts: 384"), "10", "`measured` takes keys");
  refuses(with("rails: 8", "rails: 8 GB"), "18", "without a unit");
  refuses(with("name: A100", "name: A100\nname: B"), "3", "`name` is given twice");
  refuses(with("name: A100\n", ""), "2", "`name` is missing");
  refuses(with("  detection: 2 s", "  detected: 2 s"), "21", "`failures.detected` is unknown");
  refuses(with("inside:\n", "inside: 300 GB/s\n"), "13", "not YAML");
  refuses("", "1", "a cluster takes keys");
  refuses("- a\n", "1", "a cluster takes keys");
  refuses("name: [\n", "2", "not YAML");
}

TEST_CASE("failures may be missing, and shares given", "[cluster]") {
  auto text = runtime::read_text(folder() + "h100.yaml");
  text.resize(text.find("failures:"));
  CHECK(parse_cluster(text, "h").device_seconds_between_failures == 0);
  const auto x = parse_cluster(text + "measured: {products: 0.5, step: 2 ms}\n", "h");
  CHECK(x.measured.products == 0.5);
  CHECK(x.measured.step == Approx(0.002));
  CHECK(!x.measured.links);
}
