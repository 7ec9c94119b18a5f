#include "runtime/core/hash.hpp"

#include "tests/support/broken.hpp"

using namespace troupe::runtime;

TEST_CASE("SHA-256 in pieces is that of the whole, as FIPS 180-4 has it", "[core]") {
  sha256 hash;
  hash.add("a", 1);
  hash.add("bc", 2);
  CHECK(hash.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_BREAKS("HASH-2", hash.hex());
  CHECK_BREAKS("HASH-1", hash.add("d", 1));
}

TEST_CASE("digests of parts add up to one of the whole, in any order", "[core]") {
  const digest a{1, ~std::uint64_t{0}}, b{2, 1}, c{~std::uint64_t{0}, 7};
  digest x = a, y = c;
  x += b;
  CHECK(x == digest{4, 0});
  x += c;
  y += b;
  y += a;
  CHECK(x == y);
}
