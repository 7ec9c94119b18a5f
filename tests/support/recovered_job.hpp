// Jobs that recover from planted deaths, and what must be as if nobody had died.

#pragma once

#include "tests/support/saved_job.hpp"
#include "tests/support/scratch_folder.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace troupe::tests {

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
  std::size_t restarts = 0;
  std::size_t leased = 0;
  std::int64_t saved = -1;  ///< the newest checkpoint
  std::string state(std::size_t step) const { return steps.at(step)["state_digest"]; }
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

inline lived live(const arrangement& what,
                  const std::string& death = {},
                  const std::vector<actors::make_viewer>& viewers = {}) {
  const scratch_folder folder;
  auto job = what.job;
  job.checkpoints.save = folder / "checkpoints";
  job.watch.log_file = folder / "log.jsonl";
  job.faults.death = death;
  const auto prepared = what.prepare(job);
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
  out.leased = prepared->node->transport->leased();
  if (const auto found = runtime::latest_checkpoint(job.checkpoints.save).folder)
    out.saved = runtime::checkpoint_reader(*found).manifest().iteration;
  return out;
}

/// As if nobody had died.
inline const lived& undisturbed(const arrangement& what) {
  static std::map<std::string, lived> known;
  const auto found = known.find(what.name);
  if (found != known.end())
    return found->second;
  const auto& out = known.emplace(what.name, live(what)).first->second;
  REQUIRE(out.end.reason.empty());
  REQUIRE(out.iterations.back() == what.job.train_iterations);
  REQUIRE(std::is_sorted(out.iterations.begin(), out.iterations.end()));
  REQUIRE(std::adjacent_find(out.iterations.begin(), out.iterations.end()) == out.iterations.end());
  REQUIRE(out.restarts == 0);
  REQUIRE(out.events.empty());
  return out;
}

inline void check_same(const lived& x, const lived& calm) {
  CHECK(x.end.reason == "");
  CHECK(x.end.exit_code == 0);
  CHECK(x.iterations == calm.iterations);
  CHECK(x.steps == calm.steps);
  CHECK(x.validations == calm.validations);
  CHECK(x.leased == 0);
  CHECK(x.saved == calm.saved);
}

/// Dies as planted, and it comes out as if nobody had; each time all go on from what they have, but
/// where they were not complete yet.
inline lived check_survives(const arrangement& what,
                            const std::string& death,
                            std::size_t at_least = 1) {
  auto x = live(what, death);
  check_same(x, undisturbed(what));
  CHECK(x.restarts >= at_least);
  const bool incomplete
      = death.find("@" + std::to_string(x.iterations.front()) + ":restore") != std::string::npos;
  for (const auto& event : x.events)
    if (event.contains("state_from") && !incomplete)
      CHECK(event["state_from"] == "estate");
  return x;
}

inline arrangement two_by_two() {
  return {"2x2", watched_job(tiny_job(2, 2))};
}

/// "reduce" or the like at a step where it happens: step 4 is saved, step 3 is followed by a
/// validation, and only the first is begun by building.
inline std::string death_of(const std::string& who, const std::string& moment) {
  const char* const step = moment == "validate" ? "@3:" : moment == "restore" ? "@1:" : "@4:";
  return who + step + moment;
}

}  // namespace troupe::tests
