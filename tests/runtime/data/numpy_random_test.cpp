#include "runtime/data/numpy_random.hpp"

#include "tests/runtime/data/golden.hpp"
#include "tests/support/broken.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdlib>
#include <numeric>

using namespace troupe::runtime;
using namespace troupe::tests;

TEST_CASE("the legacy generator equals numpy.random.RandomState", "[data][golden]") {
  for (const auto& c : golden()["numpy"]["legacy"]) {
    numpy_random_state r(c["seed"]);
    for (const std::uint32_t bits : c["bits"])
      CHECK(r.next32() == bits);
    for (const std::string text : c["random"]) {
      INFO(text);
      CHECK(r.random() == std::strtod(text.c_str(), nullptr));
    }
    for (const int n : {0, 1, 2, 17, 1000}) {
      std::vector<std::int32_t> x(static_cast<std::size_t>(n));
      std::iota(x.begin(), x.end(), 0);
      r.shuffle(std::span(x));
      const auto& expected = c[fmt::format("shuffle_{}", n)];
      if (n < 100)
        CHECK(x == expected.get<std::vector<std::int32_t>>());
      else
        CHECK(sha256_of(x.data(), 4 * x.size()) == expected);
    }
  }
}

TEST_CASE("the generator equals numpy.random.default_rng", "[data][golden]") {
  for (const auto& c : golden()["numpy"]["generator"]) {
    numpy_generator g(c["seed"]);
    for (const std::string raw : c["raw"])
      CHECK(g.next64() == std::strtoull(raw.c_str(), nullptr, 10));
    for (const auto& draw : c["integers"])
      CHECK(g.integer32(draw[0], draw[1]) == draw[2].get<std::int32_t>());
    std::vector<std::int32_t> many(1001);
    for (auto& x : many)
      x = g.integer32(0, 3 << 29);
    CHECK(sha256_of(many.data(), 4 * many.size()) == c["many"]);
  }
}

TEST_CASE("an empty range of random numbers is a broken promise", "[data]") {
  CHECK_BREAKS("RANDOM-1", numpy_generator(1).integer32(3, 2));
}

TEST_CASE("drawing ahead gives the same shuffle as one swap after the other", "[data]") {
  for (const std::size_t size : {0, 1, 2, 63, 64, 65, 66, 128, 129, 130, 1000}) {
    INFO(size);
    std::vector<std::int32_t> ahead(size);
    std::iota(ahead.begin(), ahead.end(), 0);
    auto plain = ahead;
    numpy_random_state a(7), b(7);
    a.shuffle(std::span(ahead));
    for (std::size_t i = size; i-- > 1;)
      std::swap(plain[i], plain[b.interval(i)]);
    CHECK(ahead == plain);
    CHECK(a.next64() == b.next64());
  }
}
