// Many seeds by several child processes: a seed that crashes ends its child, not the search.

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
  std::filesystem::path folder;         ///< each child has a folder of its own in it
  /// Called now and then with how many are done.
  std::function<void(std::uint64_t)> progress = {};
};

struct found_failure {
  std::uint64_t seed = 0;
  std::vector<std::string> wrong;
};

struct search_result {
  std::uint64_t done = 0, turns = 0;
  std::uint64_t deaths = 0, breaks = 0;  ///< seeds in which somebody died, or a connection broke
  std::optional<found_failure> failure = {};  ///< the first that was found; then the rest is left
};

/// Call it while this process has one thread: children are made by fork. What they print goes
/// nowhere. Throws io_error: the system gives no process, or no pipe.
search_result search(const search_settings& settings);

}  // namespace troupe::actors::simulation
