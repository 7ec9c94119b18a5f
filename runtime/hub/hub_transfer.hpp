// Transfers single files of a Hugging Face Hub model into the cache.

#pragma once

#include "runtime/hub/hub_cache.hpp"
#include "runtime/hub/hub_download.hpp"
#include "runtime/hub/hub_request.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace troupe::runtime {

/// A file of a commit, as its headers say.
struct hub_file {
  std::string name;        ///< path in the repository
  std::string etag;        ///< 64 digits: SHA-256 of the file; 40: git's hash of it
  std::uint64_t size = 0;  ///< bytes
};

/// Repeats failed requests, at most 5 times without progress. One thread uses it.
class hub_transfer {
 public:
  hub_transfer(const hub_name& name, const hub_cache& cache, const hub_service& service)
      : name_(name), cache_(cache), connection_(service) {}

  /// The body of an answer about the model itself. `optional`: an unreachable server is an answer.
  hub_answer model(const std::string& path, bool optional);

  hub_file about(const std::string& commit, const std::string& file);

  /// Bytes of the file that the cache has already.
  std::uint64_t received(const hub_file& file) const;

  /// Makes the file visible in the snapshot. `advance` gets the number of its received bytes.
  void fetch(const std::string& commit,
             const hub_file& file,
             const hub_notes& note,
             const std::function<void(std::uint64_t)>& advance);

 private:
  void receive(const std::string& path,
               const hub_file& file,
               const std::function<void(std::uint64_t)>& advance);
  std::string path_of(const std::string& commit, const std::string& file) const;

  const hub_name& name_;
  const hub_cache& cache_;
  hub_connection connection_;
};

}  // namespace troupe::runtime
