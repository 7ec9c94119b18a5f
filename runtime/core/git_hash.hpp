// Git's name of a file's content, which servers of git repositories give as a checksum.

#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace troupe::runtime {

/// 40 hexadecimal digits, as `git hash-object` prints them: SHA-1 of a header and the bytes.
/// Detects damage, not attacks.
std::string git_hash(std::span<const std::byte> bytes);

}  // namespace troupe::runtime
