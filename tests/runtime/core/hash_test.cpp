#include "runtime/core/hash.hpp"

#include "tests/support/broken.hpp"

#include <openssl/crypto.h>
#include <openssl/provider.h>

using namespace troupe::runtime;

TEST_CASE("SHA-256 of pieces equals that of the whole, as in FIPS 180-4", "[core]") {
  sha256 hash;
  hash.add("a", 1);
  hash.add("bc", 2);
  CHECK(hash.hex() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK_BREAKS("HASH-2", hash.hex());
  CHECK_BREAKS("HASH-1", hash.add("d", 1));
}

TEST_CASE("digests of parts add up to that of the whole, in any order", "[core]") {
  const digest a{1, ~std::uint64_t{0}}, b{2, 1}, c{~std::uint64_t{0}, 7};
  digest x = a, y = c;
  x += b;
  CHECK(x == digest{4, 0});
  x += c;
  y += b;
  y += a;
  CHECK(x == y);
}

TEST_CASE("HASH-3: OpenSSL provides SHA-256", "[core]") {
  // A library context without algorithms, as an openssl.cnf can configure it.
  auto* const library = OSSL_LIB_CTX_new();
  auto* const provider = OSSL_PROVIDER_load(library, "null");
  REQUIRE(provider != nullptr);
  auto* const before = OSSL_LIB_CTX_set0_default(library);  // of this thread only
  CHECK_BREAKS("HASH-3", sha256());
  OSSL_LIB_CTX_set0_default(before);
  OSSL_PROVIDER_unload(provider);
  OSSL_LIB_CTX_free(library);
  CHECK_NOTHROW(sha256());
}
