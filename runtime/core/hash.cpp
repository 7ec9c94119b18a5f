#include "runtime/core/hash.hpp"

#include "runtime/core/error.hpp"

#include <memory>
#include <new>
#include <openssl/evp.h>
#include <utility>
#include <xxhash.h>

namespace troupe::runtime {

std::uint64_t hash64(const void* data, std::size_t size) {
  return XXH3_64bits(data, size);
}

digester::digester() : state_(XXH3_createState()) {
  if (state_ == nullptr)
    throw std::bad_alloc();
  XXH3_128bits_reset(static_cast<XXH3_state_t*>(state_));
}

digester::~digester() {
  XXH3_freeState(static_cast<XXH3_state_t*>(state_));
}

digester& digester::add(const void* data, std::size_t size) {
  XXH3_128bits_update(static_cast<XXH3_state_t*>(state_), data, size);
  return *this;
}

digest digester::result() const {
  const auto x = XXH3_128bits_digest(static_cast<const XXH3_state_t*>(state_));
  return {x.high64, x.low64};
}

std::string to_string(const digest& x) {
  return fmt::format("{:016x}{:016x}", x.high, x.low);
}

sha256::sha256() {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                  EVP_MD_CTX_free);
  if (!context)
    throw std::bad_alloc();
  ensure(EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
         "HASH-3: OpenSSL has SHA-256");
  context_ = context.release();
}

sha256::~sha256() {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context_));
}

void sha256::add(const void* data, std::size_t size) {
  ensure(
      context_ != nullptr && EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_), data, size) == 1,
      "HASH-1: SHA-256 takes no bytes after its result");
}

std::string sha256::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> out = {};
  unsigned size = 0;
  ensure(context_ != nullptr
             && EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_), out.data(), &size) == 1,
         "HASH-2: the result of SHA-256 is read once");
  // OpenSSL 3 would accept more bytes.
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(std::exchange(context_, nullptr)));
  std::string text;
  for (unsigned i = 0; i < size; ++i)
    text += fmt::format("{:02x}", out[i]);
  return text;
}

}  // namespace troupe::runtime
