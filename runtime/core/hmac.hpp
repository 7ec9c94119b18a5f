// What proves that somebody knows a secret, without saying it. Depends on nothing else of ours: a
// plug-in compiles it, too.

#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace troupe::runtime {

/// 32 bytes.
using proof_bytes = std::array<char, 32>;

/// HMAC-SHA256 (RFC 2104) of the parts, one after the other; who needs to know where one ends says
/// it in them. The key may be empty. Throws std::runtime_error when OpenSSL cannot.
proof_bytes hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts);

/// In a time that does not depend on where they differ. Of different lengths: false.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// From the system's generator, fit for secrets and nonces. Throws std::runtime_error when it has
/// none.
proof_bytes random_bytes();

inline std::string_view text_of(const proof_bytes& x) {
  return {x.data(), x.size()};
}

}  // namespace troupe::runtime
