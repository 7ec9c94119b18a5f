#include "actors/job/cold_start.hpp"

#include "actors/job/going_on.hpp"
#include "actors/job/start.hpp"
#include "runtime/checkpoint/checkpoint.hpp"
#include "runtime/checkpoint/listing.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/log.hpp"
#include "runtime/file/file.hpp"
#include "runtime/state/ledger_beyond.hpp"
#include "runtime/state/local_states.hpp"
#include "runtime/state/training_position.hpp"

#include <fmt/format.h>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

namespace troupe::actors {
namespace {

namespace fs = std::filesystem;

bool writes_local_states(const runtime::training_job& job) {
  const auto& where = job.checkpoints;
  return job.recovery.on && job.layout.processes > 1 && where.local_interval > 0
         && !where.local_folder.empty();
}

runtime::training_position start_of(const prepared_job& x) {
  const auto& told = x.description;
  return {told.iteration,
          told.consumed,
          told.skipped,
          told.scale.is_used() ? told.scale : runtime::beginning(x.opened().job.training).scale};
}

bool is_there(const fs::path& path) {
  std::error_code failure;
  return fs::exists(path, failure);
}

/// The reason if the user went back to an older checkpoint on purpose; else empty.
std::string obstacle_in(const fs::path& save, std::uint64_t saved, std::uint64_t start) {
  const auto folder = save / runtime::iteration_folder(std::int64_t(saved));
  const auto back = fmt::format("this run starts from iteration {}", start);
  if (!is_there(folder))
    return fmt::format("its checkpoint '{}' is gone: {}", folder.string(), back);
  const auto named
      = runtime::iteration_of_folder(runtime::named_checkpoint(save).filename().string());
  return named && std::uint64_t(*named) < saved ? fmt::format(
             "'{}' names iteration {} as its newest checkpoint, but the run had saved "
             "iteration {}: {}",
             save.string(),
             *named,
             saved,
             back)
                                                : "";
}

/// COLD-1. The obstacle; empty: none.
std::string obstacle(const runtime::ledger_beyond& left, const prepared_job& to) {
  const auto& told = to.description;
  const auto& layout = to.opened().job.layout;
  if (!left.of)
    return "its ledger does not name its job";
  if (left.of->identity != told.identity)
    return "this is another job."
           + differences(left.of->identity, told.identity, "the run before", "this run");
  if (left.of->processes != layout.processes)
    return fmt::format(
        "they are stored by process: it had {} processes, but `layout.processes` is {}",
        left.of->processes,
        layout.processes);
  const auto origin = runtime::origin_of(to.opened().job.checkpoints, told.start, told.save);
  const auto in_words = [](const std::string& x) { return x.empty() ? "initial values" : x; };
  // The saved checkpoints record where the run before began.
  if (told.start.empty() && left.of->origin != origin)
    return fmt::format("it began with {}, but this run begins with {}",
                       in_words(left.of->origin),
                       in_words(origin));
  if (left.changes_rate_before && to.opened().job.checkpoints.override_scheduler)
    return "commands changed its learning rate, and `checkpoints.override_scheduler` drops these "
           "changes";
  if (left.saved)
    if (auto why = obstacle_in(told.save, *left.saved, told.iteration); !why.empty())
      return why;
  return left.complaint;
}

/// Reads the ledger of the dead run. Logs a warning and returns empty if it is unreadable.
std::optional<runtime::ledger_beyond> read_ledger_left(const fs::path& file,
                                                       const runtime::training_position& start) {
  try {
    return runtime::beyond(runtime::read_ledger(file), start);
  } catch (const runtime::error& failure) {
    runtime::log_warning("the local states of the run before, if any, are not used: {}",
                         failure.what());
    return std::nullopt;
  }
}

/// Returns false when the disk refuses, with a warning; the old ledger is then unchanged.
bool has_replaced(const fs::path& file, const std::vector<runtime::ledger_record>& by) {
  std::string text;
  for (const auto& one : by)
    text += runtime::text_of(one) + "\n";
  try {
    runtime::write_text(file, text);
    return true;
  } catch (const runtime::error& failure) {
    runtime::log_warning("the local states of the run before are not used: {}", failure.what());
    return false;
  }
}

/// A ledger is no longer needed when all its local states are older than a checkpoint. An
/// unreadable one is kept, because it may be repaired.
bool is_to_be_kept(const fs::path& ledger) {
  try {
    return runtime::has_local_steps(runtime::read_ledger(ledger));
  } catch (const runtime::error&) {
    return true;
  }
}

/// Warns when this host has local states but no ledger.
void tell_of_states_without_ledger(const prepared_job& to, const fs::path& ledger) {
  const auto states = runtime::local_folder_of(
      to.opened().job.checkpoints.local_folder, to.description.identity, to.description.save);
  if (is_there(states))
    runtime::log_warning(
        "the local states in '{}' are not used: '{}', which describes them, does not exist; start "
        "the run in the folder of the run that wrote them",
        states.string(),
        ledger.string());
}

/// The setting that keeps a job from continuing after its newest checkpoint.
std::string unwanted_by(const runtime::checkpoint_settings& where) {
  if (const auto anew = where.begins_anew_by(); !anew.empty())
    return fmt::format("{} starts again at iteration 0", anew);
  if (where.no_load_optim)
    return "`checkpoints.no_load_optim` begins with moments from zero";
  if (where.load.empty())
    return fmt::format("`checkpoints.load` is not given, but must be {}", where.save.string());
  return fmt::format("`checkpoints.load` is {}, not the whole of `checkpoints.save`, which is {}",
                     where.load.string(),
                     where.save.string());
}

/// Logs why the same job does not use the local states.
void tell_of_unwanted(const runtime::ledger_beyond& left, const prepared_job& to) {
  const auto& where = to.opened().job.checkpoints;
  if (left.of && left.of->identity == to.description.identity && !where.save.empty())
    runtime::log_info(" the local states of the run before, of iteration {}, are not used: {}",
                      left.stored.back(),
                      unwanted_by(where));
}

}  // namespace

bool take_up_dead_run(prepared_job& to, const runtime::held_run_folder& folder) {
  const auto& job = to.opened().job;
  const auto& told = to.description;
  if (!writes_local_states(job) || job.skip_train || told.iteration >= job.train_iterations)
    return false;
  const bool wanted = goes_on_from_its_saves(job.checkpoints);
  const auto file = folder.ledger();
  if (!is_there(file)) {
    if (wanted)
      tell_of_states_without_ledger(to, file);
    return false;
  }
  const auto left = read_ledger_left(file, start_of(to));
  if (!left || left->stored.empty())
    return false;
  if (!wanted) {
    tell_of_unwanted(*left, to);
    return false;
  }
  if (const auto why = obstacle(*left, to); !why.empty()) {
    runtime::log_warning("the local states of the run before, of iteration {}, are not used: {}",
                         left->stored.back(),
                         why);
    return false;
  }
  if (!has_replaced(file, left->records))
    return false;
  go_on_writing(*to.node, job.watch, told, file);
  runtime::log_info(
      " the run before had committed iteration {}: searching its local states, those of iteration "
      "{} first; later committed iterations run again, with the same bits",
      left->newest,
      left->stored.back());
  return true;
}

void keep_ledger_left(const fs::path& ledger) {
  if (!is_there(ledger) || !is_to_be_kept(ledger))
    return;
  auto kept = ledger;
  for (int number = 1; number == 1 || is_there(kept); ++number)
    kept.replace_filename(number == 1 ? "ledger.before.jsonl"
                                      : fmt::format("ledger.before-{}.jsonl", number));
  std::error_code failure;
  fs::rename(ledger, kept, failure);
  if (failure)
    throw runtime::io_error(
        "cannot keep the ledger of the run before: renaming '{}' to '{}' failed: {}; move it away, "
        "or choose another folder for this run",
        ledger.string(),
        kept.string(),
        failure.message());
  runtime::log_warning(
      "the ledger of the run before is kept as '{}': its states on local disks are usable only "
      "with it. To continue from there after all, end this run before it writes local states, "
      "rename the file to '{}', and start with the settings of the run before",
      kept.string(),
      ledger.filename().string());
}

}  // namespace troupe::actors
