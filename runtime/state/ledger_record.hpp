// The records of a ledger file, one per line: docs/formats/ledger.md.

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/state/run_command.hpp"
#include "runtime/state/training_position.hpp"
#include "runtime/telemetry/recorder.hpp"

#include <compare>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// A restart, as counted by the restart limits.
struct restart {
  std::uint64_t at_ns = 0;  ///< of a steady clock
  std::string who;          ///< the first actor that died
  std::uint64_t step = 0;   ///< the step that was running

  friend bool operator==(const restart&, const restart&) = default;
};

namespace ledger {

/// The start of the run; the first record.
struct begun {
  training_position at;
};
/// The job of the ledger. Only the same job may continue its steps, and only the same layout may
/// use its local states.
struct job {
  std::string identity;
  int processes = 0;
  std::string origin = {};  ///< see origin_of (ledger_beyond.hpp)
};
struct committed {
  training_position at;  ///< after the step
  digest state = {};     ///< after the step
};
/// A committed step ran again, with this state.
struct replayed {
  std::uint64_t iteration = 0;
  digest state = {};
};
/// A fact for watchers, numbered from 1.
struct told {
  std::uint64_t number = 0;
  watched fact;
};
struct restarted {
  restart what;
};
/// A supervisor of this epoch took over; earlier ones are superseded.
struct succeeded {
  std::uint32_t epoch = 0;
};
/// For each process that hosts ranks: the process that keeps their states.
struct keepers {
  std::vector<int> of;
};
/// Starts this process on this host only if no other host is left: it computed wrong bits there, or
/// other processes could not reach it.
struct avoided {
  int process = 0;
  int host = 0;  ///< index among the hosts that the job names

  friend auto operator<=>(const avoided&, const avoided&) = default;
};
/// The position of a checkpoint in progress, or of a step that goes to local disks.
struct position {
  training_position at;
  bool local = false;
};
struct saved {
  std::uint64_t iteration = 0;
};
struct validated {
  std::uint64_t iteration = 0;
};
struct tested {};
struct drained {
  std::string why;
};
/// A command of a viewer. It applies from step `step` on.
struct commanded {
  std::uint64_t step = 0;
  run_command what;
  double factor = 0;  ///< only for commands::learning_rate; see rate_change
  std::string by = {};
};

}  // namespace ledger

using ledger_record = std::variant<ledger::begun,
                                   ledger::job,
                                   ledger::committed,
                                   ledger::replayed,
                                   ledger::told,
                                   ledger::restarted,
                                   ledger::succeeded,
                                   ledger::keepers,
                                   ledger::avoided,
                                   ledger::position,
                                   ledger::saved,
                                   ledger::validated,
                                   ledger::tested,
                                   ledger::drained,
                                   ledger::commanded>;

/// A JSON object on one line, without the line end.
std::string text_of(const ledger_record& x);
/// Throws input_error with the prefix `what`.
ledger_record read_ledger_record(std::string_view line, const std::string& what);

/// The records of a ledger file, in order; ignores an incomplete last line. Throws input_error with
/// the line number, and io_error.
std::vector<ledger_record> read_ledger(const std::filesystem::path& path);

/// True if the start of the run is present. Only records of supervisors that died before it may
/// precede it.
bool is_whole(const std::vector<ledger_record>& all);

/// The inconsistencies of a run's records, in words; empty: none. Checks that
/// - the records are complete from the start of the run;
/// - steps were committed and told once, in order, with increasing samples;
/// - repeated steps had the same result;
/// - saved iterations had been committed;
/// - epochs of supervisors increase.
std::vector<std::string> complaints_of(const std::vector<ledger_record>& all);

}  // namespace troupe::runtime
