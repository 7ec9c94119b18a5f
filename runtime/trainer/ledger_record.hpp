// What is written down of a run, one record a line: docs/formats/ledger.md.

#pragma once

#include "runtime/core/hash.hpp"
#include "runtime/telemetry/recorder.hpp"
#include "runtime/trainer/decision.hpp"

#include <compare>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe::runtime {

/// A restart, as the limits count them.
struct restart {
  std::uint64_t at_ns = 0;  ///< by a steady clock
  std::string who;          ///< the first that died
  std::uint64_t step = 0;   ///< that was running

  friend bool operator==(const restart&, const restart&) = default;
};

namespace ledger {

/// Where the run starts: the first record.
struct begun {
  training_position at;
};
/// Of which job it is: no other one goes on from its steps, and no other layout from what its
/// processes have on local disks.
struct job {
  std::string identity;
  int processes = 0;
  std::string origin = {};  ///< origin_of (ledger_beyond.hpp)
};
struct committed {
  training_position at;  ///< after the step
  digest state = {};     ///< the same
};
/// A step that had been committed ran again, to this state.
struct replayed {
  std::uint64_t iteration = 0;
  digest state = {};
};
/// What watchers were told, numbered from 1.
struct told {
  std::uint64_t number = 0;
  watched fact;
};
struct restarted {
  restart what;
};
/// A supervisor of this epoch has taken over: none before it writes any more.
struct succeeded {
  std::uint32_t epoch = 0;
};
/// Of each process that hosts ranks: which other one keeps their states.
struct keepers {
  std::vector<int> of;
};
/// Its host starts this process only where no other one is left: it computed wrong bits there, or
/// others did not reach it.
struct avoided {
  int process = 0;
  int host = 0;  ///< of those that the job names, from 0 on

  friend auto operator<=>(const avoided&, const avoided&) = default;
};
/// Of a checkpoint that is being saved; or of a step whose states go to local disks.
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
                                   ledger::drained>;

/// A JSON object in one line, without its end.
std::string text_of(const ledger_record& x);
/// Throws input_error, beginning with `what`.
ledger_record read_ledger_record(std::string_view line, const std::string& what);

/// Of a ledger's file, in order; a last line without its end was being written, and is left out.
/// Throws input_error, naming the line, and io_error.
std::vector<ledger_record> read_ledger(const std::filesystem::path& path);

/// Whether its beginning is there: where the run starts stands before all but the successions of
/// supervisors that died before.
bool is_whole(const std::vector<ledger_record>& all);

/// What is wrong with a run that wrote these, in words; empty: they are there from the beginning
/// on, steps were committed once and in order, each with the samples after those of the step
/// before, each was told once and in order, each that ran again came out as before, what was
/// saved had been committed, and each supervisor that took over was of a later epoch.
std::vector<std::string> complaints_of(const std::vector<ledger_record>& all);

}  // namespace troupe::runtime
