// Starts and inspects the processes (process_player.cpp) of process tests.

#pragma once

#include "runtime/file/file.hpp"
#include "runtime/process/agent_client.hpp"
#include "runtime/process/process_id.hpp"
#include "runtime/process/run_folder.hpp"
#include "tests/support/places.hpp"
#include "tests/support/soon.hpp"

#include <filesystem>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::tests {

inline std::vector<std::string> player(std::vector<std::string> words) {
  words.insert(words.begin(), bin_dir() + "/process_player");
  return words;
}

constexpr auto long_enough = std::chrono::seconds(60);  ///< timeout that only a hang reaches

/// True if the process has ended; its zombie may remain.
inline bool is_gone(pid_t pid) {
  const auto facts = runtime::look_at_process(pid);
  return !facts || facts->state == 'Z';
}

/// The pids that `process_player descendants FILE` writes; waits for the file.
inline std::vector<pid_t> descendants_in(const std::filesystem::path& file) {
  if (!soon([&] { return std::filesystem::exists(file); }))
    throw std::runtime_error("the descendants did not start in time");
  std::istringstream in(runtime::read_text(file));
  std::vector<pid_t> out;
  for (pid_t pid = 0; in >> pid;)
    out.push_back(pid);
  return out;
}

/// The agent's next message of this type; skips all others. Throws std::runtime_error on a timeout.
template <class Told>
Told told_by(runtime::agent_client& agent) {
  while (const auto next = agent.next(long_enough))
    if (const auto* const found = std::get_if<Told>(&*next))
      return *found;
  throw std::runtime_error("the agent did not send the expected message in time");
}

}  // namespace troupe::tests
