// Runs a job, records its tickets and samples, and reads its log.

#pragma once

#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace troupe::tests {

/// Wraps a transport and counts the tickets of each generation that were not redeemed at its end.
class watched_transport final : public runtime::transport {
 public:
  explicit watched_transport(std::shared_ptr<runtime::transport> to) : to_(std::move(to)) {}

  runtime::ticket deposit(runtime::tensor x,
                          runtime::generation_id generation,
                          std::shared_ptr<const void> until_taken = {}) override {
    return to_->deposit(std::move(x), generation, std::move(until_taken));
  }
  std::vector<runtime::tensor> redeem_all(std::span<const runtime::ticket> tickets,
                                          const runtime::redeemer& by) override {
    return to_->redeem_all(tickets, by);
  }
  void take_back(std::span<const runtime::ticket> tickets) override {
    const std::lock_guard lock(mutex_);  // keeps these tickets out of the count in end_generation
    to_->take_back(tickets);
  }
  void end_generation(runtime::generation_id last) override {
    const std::lock_guard lock(mutex_);
    const auto before = std::uint64_t(to_->counters().dropped);
    to_->end_generation(last);
    left_[value(last)] += std::uint64_t(to_->counters().dropped) - before;
  }
  std::size_t leased() const override { return to_->leased(); }
  const runtime::transport_counters& counters() const override { return to_->counters(); }

  /// Tickets that were not redeemed, by generation.
  std::map<std::uint64_t, std::uint64_t> left() const {
    const std::lock_guard lock(mutex_);
    return left_;
  }

 private:
  std::shared_ptr<runtime::transport> to_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> left_;
};

/// Wraps a batch source and records the requested samples.
class watched_source final : public runtime::batch_source {
 public:
  watched_source(std::shared_ptr<const runtime::batch_source> of, const runtime::recipe& recipe)
      : of_(std::move(of)),
        layout_{std::uint64_t(recipe.batch.micro), std::uint64_t(recipe.batch.data_parallel)} {}

  runtime::bundle microbatch(const runtime::microbatch_address& at) const override {
    {
      const std::lock_guard lock(mutex_);
      for (std::uint64_t row = 0; row < layout_.micro_batch_size; ++row)
        samples_.insert(
            runtime::sample_position(layout_, at.consumed, at.microbatch, at.replica, row));
    }
    return of_->microbatch(at);
  }
  std::set<std::uint64_t> samples() const {
    const std::lock_guard lock(mutex_);
    return samples_;
  }

 private:
  std::shared_ptr<const runtime::batch_source> of_;
  runtime::batch_layout layout_;
  mutable std::mutex mutex_;
  mutable std::set<std::uint64_t> samples_;
};

/// Six steps, a checkpoint after every second step, a validation after every third.
inline runtime::training_job watched_job(runtime::training_job job) {
  job.train_iterations = 6;
  job.checkpoints.save_interval = 2;
  job.watch.eval_interval = 3;
  job.watch.eval_batches = 1;
  job.recovery.on = true;
  return job;
}

/// A job, its name, and the function that prepares it.
struct arrangement {
  std::string name;
  runtime::training_job job;
  std::function<std::shared_ptr<actors::prepared_job>(const runtime::training_job&)> prepare
      = tiny_prepared;
};

struct lived {
  actors::outcome end;
  std::vector<std::uint64_t> iterations;  ///< steps in the log, in its order
  std::vector<nlohmann::json> steps;      ///< their records, without times
  std::vector<double> validations;
  std::vector<nlohmann::json> events;
  std::size_t restarts = 0;                     ///< according to the ledger
  std::set<std::uint64_t> samples;              ///< requested from the training set
  std::map<std::uint64_t, std::uint64_t> left;  ///< unredeemed tickets at the end of a generation
  std::size_t leased = 0;                       ///< tickets at the end of the run
  std::int64_t saved = -1;                      ///< iteration of the newest checkpoint
  std::vector<std::string> waiting;             ///< planted deaths that did not fire

  std::string state(std::size_t step) const { return steps.at(step)["state_digest"]; }
  /// Unredeemed tickets of the last generation.
  std::uint64_t left_at_end() const { return left.empty() ? 0 : left.rbegin()->second; }
};

/// The fields of a step record that do not depend on time.
inline nlohmann::json without_times(const nlohmann::json& step) {
  nlohmann::json out;
  for (const auto* field : {"iteration",
                            "consumed_samples",
                            "consumed_tokens",
                            "grad_norm",
                            "learning_rate",
                            "global_batch_size",
                            "loss_scale",
                            "skipped_iterations",
                            "nan_iterations",
                            "state_digest"})
    if (step.contains(field))
      out[field] = step[field];
  for (const auto& [field, mean] : step.items())
    if (field.ends_with("loss"))
      out[field] = mean;
  return out;
}

/// Runs the job in a new folder, with log.jsonl and checkpoints/. `death`: the value of
/// --plant-death.
inline lived live(const arrangement& what,
                  const std::string& death = {},
                  const std::vector<actors::make_viewer>& viewers = {}) {
  const scratch_folder folder(place_in_memory());
  auto job = what.job;
  job.checkpoints.save = folder / "checkpoints";
  job.watch.log_file = folder / "log.jsonl";
  job.faults.death = death;
  const auto prepared = what.prepare(job);
  const auto transport = std::make_shared<watched_transport>(prepared->node->transport);
  prepared->node->transport = transport;
  const auto source = std::make_shared<watched_source>(prepared->node->training, job.training);
  prepared->node->training = source;
  // Restores a rank if no process keeps its state any more.
  prepared->node->restore_saved = [save = job.checkpoints.save](runtime::worker& by,
                                                                std::uint64_t iteration) {
    const runtime::checkpoint_reader from(save
                                          / runtime::iteration_folder(std::int64_t(iteration)));
    by.restore([&](const runtime::state_shard& to) { from.read(to.name, to.part, to.elements); },
               true);
  };
  lived out;
  out.end = actors::run(prepared, {}, viewers);
  std::ifstream in(folder / "log.jsonl");
  for (std::string line; std::getline(in, line);) {
    const auto record = nlohmann::json::parse(line);
    if (record.contains("event")) {
      out.events.push_back(record);
    } else if (record.contains("validation_loss")) {
      out.validations.push_back(record["validation_loss"]);
    } else {
      out.iterations.push_back(record["iteration"]);
      out.steps.push_back(without_times(record));
    }
  }
  out.restarts = prepared->node->ledger->restarts().size();
  out.samples = source->samples();
  out.left = transport->left();
  out.leased = transport->leased();
  if (prepared->node->faults)
    out.waiting = prepared->node->faults->deaths_to_come();
  if (const auto found = runtime::latest_checkpoint(job.checkpoints.save).folder)
    out.saved = runtime::checkpoint_reader(*found).manifest().iteration;
  return out;
}

}  // namespace troupe::tests
