// Selects the step on local disks that the run may go back to: a function of what the processes
// found, without actors.
//
//   MEMBER-6  Unverified states are never used. A step counts only when the states of all processes
//             are there, each with its holder, and together give the ledger's digest of that step.
//             Ranks with equal parameters have equal states.

#pragma once

#include "actors/host/opened_job.hpp"
#include "actors/supervisor/membership.hpp"
#include "messages/checkpoint/keeping.hpp"
#include "runtime/core/hash.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace troupe::actors {

/// Stored states by the process that found them.
using found_on_disks = std::map<int, std::vector<messages::stored_states>>;

struct stored_search {
  std::optional<stored_everywhere> newest = {};
  /// Newer steps, and why they do not count.
  std::vector<std::string> passed_over = {};
};

/// `keepers`: the keeper of each process. Takes its states from the keeper if it has them, else
/// from the first process that found them, for example after a move. `committed`: the ledger's
/// state of a step; zero: unknown. `before`: only steps older than this one.
stored_search newest_stored(const found_on_disks& found,
                            const std::vector<int>& keepers,
                            const opened_job& job,
                            const std::function<runtime::digest(std::uint64_t)>& committed,
                            std::optional<std::uint64_t> before = {});

}  // namespace troupe::actors
