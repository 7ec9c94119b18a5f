// Judges many seeds in several child processes: a crash ends one child, not the search.

#pragma once

#include "actors/simulation/seed_judge.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace troupe::actors::simulation {

struct search_settings {
  std::uint64_t first = 1, last = 100;  ///< seeds
  int jobs = 1;                         ///< child processes
  std::filesystem::path folder;         ///< each child has its own folder below
  /// Called from time to time with the number of judged seeds.
  std::function<void(std::uint64_t)> progress = {};
};

struct found_failure {
  std::uint64_t seed = 0;
  std::vector<std::string> wrong;
};

struct search_result {
  std::uint64_t done = 0, turns = 0;
  std::uint64_t deaths = 0, breaks = 0;  ///< seeds in which a member died, or a connection broke
  std::optional<found_failure> failure = {};  ///< the first failure found; it ends the search
};

/// Call it while this process has a single thread: it forks. The children's output is discarded.
/// Throws io_error if a process or a pipe cannot be created.
search_result search(const search_settings& settings);

}  // namespace troupe::actors::simulation
