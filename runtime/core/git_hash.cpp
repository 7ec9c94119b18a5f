#include "runtime/core/git_hash.hpp"

#include "runtime/core/error.hpp"

#include <array>
#include <memory>
#include <openssl/evp.h>

namespace troupe::runtime {

std::string git_hash(std::span<const std::byte> bytes) {
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(),
                                                                        EVP_MD_CTX_free);
  const auto head = fmt::format("blob {}", bytes.size());
  std::array<unsigned char, EVP_MAX_MD_SIZE> out = {};
  unsigned size = 0;
  if (!context || EVP_DigestInit_ex(context.get(), EVP_sha1(), nullptr) != 1
      || EVP_DigestUpdate(context.get(), head.c_str(), head.size() + 1) != 1  // with its zero
      || EVP_DigestUpdate(context.get(), bytes.data(), bytes.size()) != 1
      || EVP_DigestFinal_ex(context.get(), out.data(), &size) != 1)
    throw io_error("cannot compute a hash of git: OpenSSL refuses SHA-1; check its configuration");
  std::string text;
  for (unsigned i = 0; i < size; ++i)
    text += fmt::format("{:02x}", out[i]);
  return text;
}

}  // namespace troupe::runtime
