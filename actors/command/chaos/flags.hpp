// The flags of `troupe chaos`, and what they wish for.

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

/// Throws usage_error for names that are none, and links of which nobody said how they are cut.
plan_wish wish_of(const chaos_flags& flags,
                  const runtime::training_job& job,
                  const reference_run& reference);

/// Absolute, of --node-folders. `count`: how many nodes the job names. Throws usage_error: there
/// are not as many, one is named twice, or a folder is none of a standing node of this machine that
/// is free.
std::vector<std::filesystem::path> find_node_folders(const chaos_flags& flags, std::size_t count);

/// The command that brings the same about, of the same undisturbed run.
std::string replay_of(const chaos_flags& flags,
                      const plan_wish& wish,
                      const std::filesystem::path& undisturbed);

}  // namespace troupe::command::chaos
