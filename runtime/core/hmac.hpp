// Message authentication: HMAC, constant-time comparison, random bytes. Includes no other header of
// ours, because plug-ins compile it too.

#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

namespace troupe::runtime {

using proof_bytes = std::array<char, 32>;

/// HMAC-SHA256 (RFC 2104) of the concatenated parts. A caller that needs their boundaries must
/// encode them. The key may be empty. Throws std::runtime_error if OpenSSL fails.
proof_bytes hmac_sha256(std::string_view key, std::initializer_list<std::string_view> parts);

/// Takes a time that does not depend on the first difference. False for different lengths.
bool equal_in_constant_time(std::string_view a, std::string_view b);

/// Cryptographic random bytes, fit for secrets and nonces. Throws std::runtime_error if OpenSSL
/// fails.
proof_bytes random_bytes();

inline std::string_view text_of(const proof_bytes& x) {
  return {x.data(), x.size()};
}

}  // namespace troupe::runtime
