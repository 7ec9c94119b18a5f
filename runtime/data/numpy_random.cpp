#include "runtime/data/numpy_random.hpp"

#include "runtime/core/error.hpp"

#include <array>
#include <bit>
#include <cmath>

namespace troupe::runtime {
namespace {

/// numpy.random.SeedSequence(entropy).generate_state(4, uint64), for one word of entropy. The
/// constants are from O'Neill's seed_seq_fe.
std::array<std::uint64_t, 4> seed_sequence(std::uint32_t entropy) {
  std::uint32_t hash_constant = 0x43b0d7e5;
  const auto hash = [&hash_constant](std::uint32_t value) {
    value ^= hash_constant;
    hash_constant *= 0x931e8875;
    value *= hash_constant;
    return value ^ (value >> 16);
  };
  const auto mix = [](std::uint32_t x, std::uint32_t y) {
    const std::uint32_t result = 0xca01f9dd * x - 0x4973f715 * y;
    return result ^ (result >> 16);
  };

  std::array<std::uint32_t, 4> pool = {};
  for (std::size_t i = 0; i < pool.size(); ++i)
    pool[i] = hash(i == 0 ? entropy : 0);
  for (std::size_t from = 0; from < pool.size(); ++from)
    for (std::size_t to = 0; to < pool.size(); ++to)
      if (from != to)
        pool[to] = mix(pool[to], hash(pool[from]));

  std::uint32_t out_constant = 0x8b51f9dd;
  std::array<std::uint64_t, 4> state = {};
  for (std::size_t i = 0; i < 8; ++i) {
    std::uint32_t value = pool[i % pool.size()] ^ out_constant;
    out_constant *= 0x58f38ded;
    value *= out_constant;
    value ^= value >> 16;
    state[i / 2] |= std::uint64_t{value} << (32 * (i % 2));
  }
  return state;
}

}  // namespace

std::uint64_t numpy_random_state::next64() {
  const std::uint64_t high = next32();
  return (high << 32) | next32();
}

double numpy_random_state::random() {
  const auto a = next32() >> 5;
  const auto b = next32() >> 6;
  return (a * 67108864.0 + b) / 9007199254740992.0;
}

std::uint64_t numpy_random_state::interval(std::uint64_t max) {
  if (max == 0)
    return 0;
  const auto mask = ~std::uint64_t{0} >> std::countl_zero(max);
  for (;;) {
    const auto value = (max <= 0xffffffffU ? next32() : next64()) & mask;
    if (value <= max)
      return value;
  }
}

// Inversion with the smaller of p and 1 - p, as numpy does for small binomial numbers.
bool numpy_random_state::bernoulli(double p) {
  const double less = p <= 0.5 ? p : 1 - p;
  for (;;) {
    const double none = std::exp(std::log1p(-less)), drawn = random();
    if (drawn <= none)
      return p > 0.5;
    if (drawn - none <= less * none / (1 - less))
      return p <= 0.5;
  }  // beyond both by rounding: draws again
}

std::int64_t numpy_random_state::geometric(double p) {
  return std::max(std::int64_t(std::ceil(std::log1p(-random()) / std::log(1 - p))),
                  std::int64_t{1});
}

numpy_generator::numpy_generator(std::uint32_t seed) {
  const auto words = seed_sequence(seed);
  increment_ = (((uint128{words[2]} << 64) | words[3]) << 1) | 1;
  step();
  state_ += (uint128{words[0]} << 64) | words[1];
  step();
}

std::uint64_t numpy_generator::next64() {
  step();
  const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
  return std::rotr(folded, static_cast<int>(state_ >> 122));
}

std::uint32_t numpy_generator::next32() {
  if (has_high_half_) {
    has_high_half_ = false;
    return high_half_;
  }
  const auto both = next64();
  has_high_half_ = true;
  high_half_ = static_cast<std::uint32_t>(both >> 32);
  return static_cast<std::uint32_t>(both);
}

std::int32_t numpy_generator::integer32(std::int32_t low, std::int32_t high) {
  ensure(low < high, "RANDOM-1: integers are drawn from a range that has one");
  const auto count = static_cast<std::uint32_t>(high) - static_cast<std::uint32_t>(low);
  if (count == 1)
    return low;
  auto product = std::uint64_t{next32()} * count;
  if (static_cast<std::uint32_t>(product) < count) {
    const std::uint32_t threshold = (0U - count) % count;
    while (static_cast<std::uint32_t>(product) < threshold)
      product = std::uint64_t{next32()} * count;
  }
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(low)
                                   + static_cast<std::uint32_t>(product >> 32));
}

}  // namespace troupe::runtime
