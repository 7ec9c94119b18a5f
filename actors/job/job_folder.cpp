#include "actors/job/job_folder.hpp"

#include "actors/faults/fault_injector.hpp"
#include "actors/job/cold_start.hpp"
#include "actors/job/run.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/ids.hpp"
#include "runtime/core/log.hpp"
#include "runtime/process/credentials.hpp"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

namespace troupe::actors {
namespace {

/// This process hosts all actors, or all but those that compute. Its main role is supervisor.
runtime::process_entry supervisors_entry_of(const runtime::training_job& job) {
  auto out = runtime::entry_of_this_process(supervisors_entry, "supervisor");
  out.roles = {"supervisor"};
  if (job.layout.processes > 1)
    return out;
  out.roles.emplace_back("node");
  out.ranks.resize(std::size_t(job.layout.world));
  std::iota(out.ranks.begin(), out.ranks.end(), 0);
  return out;
}

/// `best`: the best accuracy so far, which the newest facts may lack.
runtime::process_progress progress_of(const runtime::step_ledger& ledger,
                                      const living_registry& living,
                                      std::uint64_t steps,
                                      std::optional<double>& best) {
  runtime::process_progress out{.step = ledger.newest()};
  std::vector<runtime::step_report> reports;
  for (const auto& [number, fact] : ledger.facts())
    if (const auto* const report = std::get_if<runtime::step_report>(&fact))
      reports.push_back(*report);
    else if (const auto* const validated = std::get_if<runtime::validation_report>(&fact))
      if (const auto its = runtime::mean_of(validated->losses, runtime::best_accuracy_name))
        best = its;
  out.training = runtime::training_progress_of(reports, out.step, steps);
  out.training->best_accuracy = best;
  constexpr auto newest = runtime::generation_id(std::numeric_limits<std::uint64_t>::max());
  for (const auto& one : living.until(newest))
    out.generation = std::max(out.generation, std::uint64_t(one.generation));
  return out;
}

}  // namespace

job_folder::job_folder(runtime::held_run_folder folder,
                       const runtime::training_job& job,
                       const std::filesystem::path& credentials)
    : folder_(std::move(folder)) {
  try {
    if (!credentials.empty())
      runtime::copy_credentials(credentials, folder_.credentials());
    else if (job.layout.processes > 1)
      runtime::make_credentials(folder_.credentials(), folder_.record().id);
    entry_ = std::make_unique<runtime::entry_keeper>(folder_, supervisors_entry_of(job));
  } catch (const std::exception& failure) {
    folder_.end(exit_code_of(failure), failure.what());
    throw;
  }
}

job_folder::job_folder(runtime::held_run_folder folder,
                       const runtime::training_job& job,
                       std::uint32_t incarnation)
    : folder_(std::move(folder)), incarnation_(incarnation) {
  auto entry = supervisors_entry_of(job);
  entry.incarnation = incarnation;
  entry_ = std::make_unique<runtime::entry_keeper>(folder_, std::move(entry));
}

void job_folder::follow(const prepared_job& job) {
  if (!job.node->ledger->is_written_down()) {
    keep_ledger_left(folder_.ledger());
    job.node->ledger->write_down(folder_.ledger());
  }
  entry_->follow([ledger = job.node->ledger,
                  living = job.node->living,
                  steps = job.opened().job.train_iterations,
                  best = std::optional<double>()]() mutable {
    return progress_of(*ledger, *living, steps, best);
  });
  hub_ = std::make_unique<run_hub>(folder_, job, incarnation_);
  // Opens the folder by name, because this object may end first.
  if (job.node->faults)
    job.node->faults->claim_by([folder = runtime::run_folder::open(folder_.path()),
                                run = folder_.record().id](const runtime::planted_death& x) {
      return folder.claim(run, x.text);
    });
}

void job_folder::end(int exit_code, const std::string& reason) {
  entry_->stop();
  if (hub_)
    hub_->end(exit_code, reason);
  try {
    folder_.end(exit_code, reason);
  } catch (const runtime::error& failure) {
    runtime::log_warning("cannot record how this run ended: {}", failure.what());
  }
}

}  // namespace troupe::actors
