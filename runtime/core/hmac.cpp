#include "runtime/core/hmac.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <stdexcept>

namespace troupe::runtime {

proof_bytes hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts) {
  std::string all;
  for (const auto part : parts)
    all += part;
  const std::string with(key);  // OpenSSL takes a null pointer as "reuse the previous key"
  proof_bytes out;
  unsigned size = 0;
  if (::HMAC(::EVP_sha256(),
             with.c_str(),
             int(with.size()),
             reinterpret_cast<const unsigned char*>(all.data()),
             all.size(),
             reinterpret_cast<unsigned char*>(out.data()),
             &size)
          == nullptr
      || size != out.size())
    throw std::runtime_error("OpenSSL cannot compute HMAC-SHA256");
  return out;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && ::CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

proof_bytes random_bytes() {
  proof_bytes out;
  if (::RAND_bytes(reinterpret_cast<unsigned char*>(out.data()), int(out.size())) != 1)
    throw std::runtime_error("OpenSSL has no random bytes");
  return out;
}

}  // namespace troupe::runtime
