// A run that died, as the one sees it that is started again in its place: what it had committed
// beyond the checkpoint that both know, so that states on local disks can be held to it, and steps
// that run again to what they were.

#pragma once

#include "runtime/trainer/job.hpp"
#include "runtime/trainer/ledger_record.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::runtime {

struct ledger_beyond {
  std::optional<ledger::job> of = {};  ///< nothing: it does not say which job it is of
  std::uint64_t newest = 0;            ///< iteration that was committed
  /// Ascending: later iterations than where the checkpoint is, whose states went to local disks.
  std::vector<std::uint64_t> stored = {};
  /// The newest checkpoint that was complete, where it is a later one than where this begins.
  std::optional<std::uint64_t> saved = {};
  /// Why nothing can be taken up though there are stored steps: it is of another training, a step
  /// that ran again came out otherwise (LEDGER-2), or `records` are not in order (`complaints_of`);
  /// empty: it can.
  std::string complaint = {};
  /// A ledger that begins at the checkpoint and has what was committed, told and validated since,
  /// in order; what the dead run had to count for itself alone, restarts, keepers and requests to
  /// end, is not in it. Its supervisor is of epoch 1, so that the one of the run which died is of
  /// the past.
  std::vector<ledger_record> records = {};
};

/// `start`: where the training stands after the checkpoint.
ledger_beyond beyond(const std::vector<ledger_record>& all, const training_position& start);

/// Whether later steps than its newest checkpoint went to local disks.
bool has_local_steps(const std::vector<ledger_record>& all);

/// Where the weights of a run come from that begins without a checkpoint of its own, in words, for
/// `ledger::job`; empty: from initial values, or it has one, below `save`. `start`: the checkpoint
/// that it starts from; empty: none. Identity says nothing of that, and its bits are others.
std::string origin_of(const checkpoint_settings& where,
                      const std::string& start,
                      const std::string& save);

}  // namespace troupe::runtime
