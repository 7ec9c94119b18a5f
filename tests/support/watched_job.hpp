// A run whose tickets and samples are watched, and what its log says of it.

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

/// Another's, and how many tickets of each generation nobody had redeemed when that ended.
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
    const std::lock_guard lock(mutex_);  // so that `end_generation` counts its own
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

  /// By generation, ascending.
  std::map<std::uint64_t, std::uint64_t> left() const {
    const std::lock_guard lock(mutex_);
    return left_;
  }

 private:
  std::shared_ptr<runtime::transport> to_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::uint64_t> left_;
};

/// Another's, and which samples were asked for.
class watched_source final : public runtime::batch_source {
 public:
  watched_source(std::shared_ptr<const runtime::batch_source> of, const runtime::recipe& recipe)
      : of_(std::move(of)),
        layout_{std::uint64_t(recipe.batch.micro), std::uint64_t(recipe.batch.data_parallel)} {}

  runtime::micro_batch microbatch(const runtime::microbatch_address& at) const override {
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

/// Six steps, a checkpoint after every second, validations after every third.
inline runtime::training_job watched_job(runtime::training_job job) {
  job.train_iterations = 6;
  job.checkpoints.save_interval = 2;
  job.watch.eval_interval = 3;
  job.watch.eval_batches = 1;
  job.recovery.on = true;
  return job;
}

/// A job with its name, and how it is made ready.
struct arrangement {
  std::string name;
  runtime::training_job job;
  std::function<std::shared_ptr<actors::prepared_job>(const runtime::training_job&)> prepare
      = tiny_prepared;
};

struct lived {
  actors::outcome end;
  std::vector<std::uint64_t> iterations;  ///< of the steps in the log, in its order
  std::vector<nlohmann::json> steps;      ///< the same, but for the times in them
  std::vector<double> validations;
  std::vector<nlohmann::json> events;
  std::size_t restarts = 0;                     ///< of the ledger
  std::set<std::uint64_t> samples;              ///< asked for, of the training set
  std::map<std::uint64_t, std::uint64_t> left;  ///< tickets, by generation: when it ended
  std::size_t leased = 0;                       ///< at the end
  std::int64_t saved = -1;                      ///< the newest checkpoint
  std::vector<std::string> waiting;             ///< deaths that nobody has died

  std::string state(std::size_t step) const { return steps.at(step)["state_digest"]; }
  /// Tickets that the generation which ran to the end has left.
  std::uint64_t left_at_end() const { return left.empty() ? 0 : left.rbegin()->second; }
};

/// What a step is, whenever and however long it was computed.
inline nlohmann::json without_times(const nlohmann::json& step) {
  nlohmann::json out;
  for (const auto* field : {"iteration",
                            "consumed_samples",
                            "consumed_tokens",
                            "lm_loss",
                            "grad_norm",
                            "learning_rate",
                            "global_batch_size",
                            "loss_scale",
                            "skipped_iterations",
                            "nan_iterations",
                            "state_digest"})
    if (step.contains(field))
      out[field] = step[field];
  return out;
}

/// Into log.jsonl and checkpoints/ of a folder of its own. `death`: as --plant-death says it.
inline lived live(const arrangement& what,
                  const std::string& death = {},
                  const std::vector<actors::make_viewer>& viewers = {},
                  actors::planted_bug bug = actors::planted_bug::none) {
  const scratch_folder folder(place_in_memory());
  auto job = what.job;
  job.checkpoints.save = folder / "checkpoints";
  job.watch.log_file = folder / "log.jsonl";
  job.faults.death = death;
  const auto prepared = what.prepare(job);
  prepared->node->bug = bug;
  const auto transport = std::make_shared<watched_transport>(prepared->node->transport);
  prepared->node->transport = transport;
  const auto source = std::make_shared<watched_source>(prepared->node->training, job.training);
  prepared->node->training = source;
  // What a rank is filled from when what its process kept of it is lost.
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
  out.waiting = prepared->node->faults->deaths_to_come();
  if (const auto found = runtime::latest_checkpoint(job.checkpoints.save).folder)
    out.saved = runtime::checkpoint_reader(*found).manifest().iteration;
  return out;
}

}  // namespace troupe::tests
