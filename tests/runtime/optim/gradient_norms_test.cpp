#include "runtime/optim/gradient_norms.hpp"

#include "kernels/op/grain.hpp"
#include "runtime/parameters/resident_store.hpp"
#include "runtime/telemetry/operation_profile.hpp"
#include "tests/support/numbers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <numeric>

using namespace troupe::runtime;
using troupe::tests::normal;
namespace kernels = troupe::kernels;

namespace {

constexpr std::int64_t norm_grain = 8;

/// Four parameters in two units. Copies of the third are added later, and another rank reports the
/// last.
struct four_gradients {
  resident_store store{{{"first", {vector_of("a", 37), vector_of("b", 1)}},
                        {"second", {vector_of("c", 20), vector_of("d", 9)}}},
                       1,
                       {}};
  memory_pool pool;
  gradient_norms norms;

  explicit four_gradients(bool compared)
      : norms(store,
              ranges(),
              pool,
              norm_grain,
              {.added_to_later = {0, 0, 1, 0}, .compared = compared}) {
    std::uint32_t seed = 0;
    for (float* const x : {at(0), at(1), at(2), at(3)}) {
      const auto drawn
          = normal<float>(std::size_t(store.entries()[std::size_t(seed)].valid), seed + 1);
      std::copy(drawn.begin(), drawn.end(), x);
      ++seed;
    }
  }

  float* at(int entry) { return static_cast<parameter_store&>(store).gradients(0, entry); }

  square_norms read(stream& by) const {
    square_norms out;
    reads all(by);
    norms.read(all, &out, nullptr);
    all.finish();
    return out;
  }
  std::vector<digest> digests(stream& by, square_norms* too = nullptr) const {
    std::vector<digest> out;
    reads all(by);
    norms.read(all, too, &out);
    all.finish();
    return out;
  }

 private:
  static parameter_spec vector_of(const std::string& name, std::int64_t n) {
    return {.name = name, .extents = {n}, .initial = distribution::constant(1)};
  }
  std::vector<gradient_norms::range> ranges() const {
    std::vector<gradient_norms::range> out;
    for (const auto& x : whole_ranges(store)) {
      std::vector<std::uint64_t> keys(std::size_t(kernels::grains_in(x.size(), norm_grain)));
      std::iota(keys.begin(), keys.end(), std::uint64_t(1000 * x.entry + 1));
      out.push_back({x, x.entry != 3, std::move(keys)});
    }
    return out;
  }
};

}  // namespace

TEST_CASE("norms and fingerprints taken early equal those taken at the end", "[optim]") {
  stream stream(GENERATE(kernels::backend::cpu, kernels::backend::reference), 1, {});
  const bool compared = GENERATE(false, true);
  four_gradients early(compared), late(compared);
  early.norms.take(stream, 2, 4);
  early.norms.take(stream, 1, 2);
  early.norms.take(stream, 0, 1);
  square_norms of_early, of_late;
  const auto digests = early.digests(stream, &of_early);
  CHECK(digests == late.digests(stream, &of_late));
  CHECK(of_early == of_late);
  CHECK(of_early == early.read(stream));
  CHECK(digests == early.digests(stream));
  REQUIRE(of_early.size() == 3);  // another rank reports the last
  CHECK(digests.size() == 4);
  for (const auto& x : digests)
    CHECK(std::count(digests.begin(), digests.end(), x) == 1);
}

TEST_CASE("norms that were taken are not computed again until `forget`", "[optim]") {
  stream stream(kernels::backend::cpu, 1, {});
  four_gradients x(true);
  square_norms before;
  const auto digests = x.digests(stream, &before);
  x.norms.take(stream, 0, 4);
  for (int e = 0; e < 4; ++e)
    x.at(e)[0] += 1;
  square_norms after;
  const auto changed = x.digests(stream, &after);
  CHECK(after.at("a") == before.at("a"));
  CHECK(after.at("b") == before.at("b"));
  CHECK(after.at("c") != before.at("c"));  // its gradient is completed later
  CHECK(changed[0] == digests[0]);
  CHECK(changed[2] != digests[2]);
  CHECK(changed[3] == digests[3]);
  x.norms.forget();
  const auto anew = x.digests(stream, &after);
  CHECK(after.at("a") != before.at("a"));
  for (std::size_t e = 0; e < 4; ++e)
    CHECK(anew[e] != digests[e]);
}

TEST_CASE("norms and fingerprints read each gradient once", "[optim]") {
  const bool compared = GENERATE(false, true);
  const auto profile = std::make_shared<operation_profile>();
  {
    stream stream(kernels::backend::cpu, 1, {});
    stream.time_operations(profile);
    four_gradients x(compared);
    for (int step = 0; step < 3; ++step) {  // the first two are not counted
      stream.begin_step(true);
      x.norms.forget();
      x.norms.take(stream, 2, 4);
      x.norms.take(stream, 0, 2);
      x.norms.take(stream, 0, 4);
      if (compared) {
        square_norms too;
        x.digests(stream, &too);
      } else {
        x.read(stream);
      }
    }
  }
  REQUIRE(profile->steps() == 1);
  const auto times = profile->times();
  REQUIRE(times.size() == 1);
  CHECK(times[0].kind.name == "square_norms<float>");
  CHECK(times[0].bytes == 4 * (37 + 1 + 20 + (compared ? 9 : 0)));
  CHECK(times[0].calls == (compared ? 3 : 2));
}
