// Reads the ledger of a dead run for its restart: the steps after the checkpoint that both runs
// know. Local states and repeated steps can then be compared with the old results.

#pragma once

#include "runtime/job/job.hpp"
#include "runtime/state/ledger_record.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct ledger_beyond {
  std::optional<ledger::job> of = {};  ///< nothing: the ledger does not name its job
  std::uint64_t newest = 0;            ///< last committed iteration
  /// Iterations after the checkpoint with states on local disks; ascending.
  std::vector<std::uint64_t> stored = {};
  /// The newest complete checkpoint, if it is later than the starting checkpoint.
  std::optional<std::uint64_t> saved = {};
  /// Why the stored steps cannot be used; empty: they can. Either the ledger is of another
  /// training, or a repeated step had another result (LEDGER-2), or `records` are inconsistent
  /// (`complaints_of`).
  std::string complaint = {};
  /// A ledger that begins at the checkpoint, with what was committed, reported and validated since
  /// then, in order. It has the commands that change intervals and the learning rate. It leaves out
  /// the dead run's restarts, keepers, other commands and requests to end.
  /// Its supervisor has epoch 1, which supersedes the supervisor of the dead run.
  std::vector<ledger_record> records = {};
  /// True if a command changed the learning rate before the checkpoint. The checkpoint's identity
  /// has that change.
  bool changes_rate_before = false;
};

/// `start`: the position of the checkpoint.
ledger_beyond beyond(const std::vector<ledger_record>& all, const training_position& start);

/// True if the local disks have later steps than the newest checkpoint.
bool has_local_steps(const std::vector<ledger_record>& all);

/// The origin of a run's weights, in words, for `ledger::job`: runs with equal identities may start
/// from different weights. Empty: initial values, or the run's own checkpoint, below `save`.
/// `start`: the checkpoint that the run starts from; empty: none.
std::string origin_of(const checkpoint_settings& where,
                      const std::string& start,
                      const std::string& save);

}  // namespace troupe::runtime
