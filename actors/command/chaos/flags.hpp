// The flags of `troupe chaos`, and how they become a plan_wish.

#pragma once

#include "actors/command/chaos/plan.hpp"
#include "actors/command/chaos/run.hpp"
#include "actors/command/command_line.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::command::chaos {

struct chaos_flags {
  std::int64_t kills = 10;
  double every = 5;
  std::optional<std::int64_t> every_steps, only;
  std::int64_t seed = 1;
  std::string kinds, roles = "node,front,lane", moments;
  bool all = false, list = false;
  std::filesystem::path report, table, undisturbed, folder;
  std::string cut, heal, cut_one_way, heal_one_way;
  std::string node_folders;
  std::vector<std::string> command;
};

void declare_faults(command_line& to, chaos_flags& flags);
void declare_telling(command_line& to, chaos_flags& flags);

/// Throws usage_error for unknown names, and for link faults without commands that cut the link.
plan_wish wish_of(const chaos_flags& flags,
                  const runtime::training_job& job,
                  const reference_run& reference);

/// Absolute paths of --node-folders. `count`: number of nodes that the job names. Throws
/// usage_error for another number of folders, for repeated ones, and for a folder that is not of an
/// idle standing node on this machine.
std::vector<std::filesystem::path> find_node_folders(const chaos_flags& flags, std::size_t count);

/// The command that repeats the same faults with the same undisturbed run.
std::string replay_of(const chaos_flags& flags,
                      const plan_wish& wish,
                      const std::filesystem::path& undisturbed);

}  // namespace troupe::command::chaos
