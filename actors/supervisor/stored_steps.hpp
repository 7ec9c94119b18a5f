// Which step of those on local disks the run may go back to: a function of what the processes have
// found there, without actors.
//
//   MEMBER-6  A tier that does not verify is never used: a step counts where the states of all
//             processes are there, each with the process that holds it, and add up to the state
//             that the ledger has of that step.

#pragma once

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

/// By the process that has found it.
using found_on_disks = std::map<int, std::vector<messages::stored_states>>;

struct stored_search {
  std::optional<stored_everywhere> newest = {};
  /// Newer ones, and why they do not count.
  std::vector<std::string> passed_over = {};
};

/// `keepers`: of each process the one that keeps the states of its ranks, and is asked where it has
/// them; else the first that has found them, as when processes stand elsewhere since. `replicas`:
/// the ranks of each; `sharded`: each has a part of the state, else all of it. `committed`: the
/// state that the ledger has of a step; zero where it has none. `before`: only older steps than
/// that one.
stored_search newest_stored(const found_on_disks& found,
                            const std::vector<int>& keepers,
                            const std::vector<std::vector<int>>& replicas,
                            bool sharded,
                            const std::function<runtime::digest(std::uint64_t)>& committed,
                            std::optional<std::uint64_t> before = {});

}  // namespace troupe::actors
