#include "runtime/core/libraries.hpp"

#include <spdlog/version.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <openssl/crypto.h>
#include <xxhash.h>

namespace troupe::runtime {

std::vector<std::pair<std::string, std::string>> library_versions() {
  const auto xxhash = XXH_versionNumber();
  return {
      {"spdlog", fmt::format("{}.{}.{}", SPDLOG_VER_MAJOR, SPDLOG_VER_MINOR, SPDLOG_VER_PATCH)},
      {"fmt",
       fmt::format("{}.{}.{}", FMT_VERSION / 10000, FMT_VERSION / 100 % 100, FMT_VERSION % 100)},
      {"nlohmann/json",
       fmt::format("{}.{}.{}",
                   NLOHMANN_JSON_VERSION_MAJOR,
                   NLOHMANN_JSON_VERSION_MINOR,
                   NLOHMANN_JSON_VERSION_PATCH)},
      {"OpenSSL", OpenSSL_version(OPENSSL_VERSION_STRING)},
      {"xxHash", fmt::format("{}.{}.{}", xxhash / 10000, xxhash / 100 % 100, xxhash % 100)},
  };
}

}  // namespace troupe::runtime
