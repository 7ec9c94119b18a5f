// A deterministic stream of random choices for one seed.

#pragma once

#include <cstdint>
#include <initializer_list>

namespace troupe::actors::simulation {

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014.
constexpr std::uint64_t mixed(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

class choices {
 public:
  /// `purpose` separates the streams of one seed: drawing more from one does not change the others.
  choices(std::uint64_t seed, std::uint64_t purpose) : at_(mixed(seed) ^ mixed(~purpose)) {}

  std::uint64_t next() { return mixed(at_++); }
  /// In [0, n), n > 0.
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  /// In [0, 1).
  double share() { return double(next() >> 11) * 0x1p-53; }
  bool happens(double probability) { return share() < probability; }
  template <class Value>
  Value one_of(std::initializer_list<Value> all) {
    return all.begin()[below(all.size())];
  }

 private:
  std::uint64_t at_;
};

}  // namespace troupe::actors::simulation
