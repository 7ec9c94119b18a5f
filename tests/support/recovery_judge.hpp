// What must be as if nobody had died, and what is told of who did. Complaints are sentences; none:
// all is well.

#pragma once

#include "runtime/trainer/planted_death.hpp"
#include "tests/support/watched_job.hpp"

#include <algorithm>
#include <cstdint>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::tests {

using sentences = std::vector<std::string>;

/// It ended well: each step in the log once and ascending, each sample asked for, and nothing left.
inline sentences look_at_whole(const lived& x, const runtime::training_job& job) {
  sentences out;
  if (x.end.exit_code != 0 || !x.end.reason.empty())
    return {fmt::format("it ended with {}: {}", x.end.exit_code, x.end.reason)};
  const auto first = x.iterations.empty() ? 1 : x.iterations.front();
  std::vector<std::uint64_t> all;
  for (auto i = first; i <= job.train_iterations; ++i)
    all.push_back(i);
  if (x.iterations != all)
    out.push_back(fmt::format("the log has steps {}", fmt::join(x.iterations, ", ")));
  std::set<std::uint64_t> samples;
  const auto batch = std::uint64_t(job.training.batch.global);
  for (auto i = (first - 1) * batch; i < job.train_iterations * batch; ++i)
    samples.insert(i);
  if (x.samples != samples)
    out.push_back(
        fmt::format("{} samples were asked for, of {}", x.samples.size(), samples.size()));
  if (x.left_at_end() != 0 || x.leased != 0)
    out.push_back(
        fmt::format("{} tickets were left at the end, {} are leased", x.left_at_end(), x.leased));
  if (x.left.empty())
    out.push_back("no generation has ended");
  if (!x.waiting.empty())
    out.push_back(fmt::format("nobody died of {}", fmt::join(x.waiting, ", ")));
  return out;
}

/// The same steps with the same states, the same validations, the same checkpoint.
inline sentences look_at_same(const lived& x, const lived& calm) {
  sentences out;
  const auto other
      = std::mismatch(x.steps.begin(), x.steps.end(), calm.steps.begin(), calm.steps.end());
  if (other.first != x.steps.end() || other.second != calm.steps.end())
    out.push_back(fmt::format("step {} is another: {} instead of {}",
                              other.first - x.steps.begin() + 1,
                              other.first == x.steps.end() ? "none" : other.first->dump(),
                              other.second == calm.steps.end() ? "none" : other.second->dump()));
  if (x.validations != calm.validations)
    out.push_back(fmt::format("validations are {}", fmt::join(x.validations, ", ")));
  if (x.saved != calm.saved)
    out.push_back(fmt::format("the newest checkpoint is of {}", x.saved));
  return out;
}

inline bool is_service(std::string_view kind) {
  return kind == "loader" || kind == "checkpointer" || kind == "monitor";
}

/// A run that hangs as planted is to find it while it goes on. Nobody asks anything of a node
/// between two deaths: there its steps take as long as it takes to suspect it.
inline void make_time_for(const runtime::planted_death& hang, runtime::training_job& job) {
  job.recovery.suspicion = 0.5;  // long beside a piece of its work
  if (hang.kind() == "node")
    job.faults.lane_delay_us = 100'000;  // at most, at each piece of work
}

/// "0" of "stage:0.1"
inline std::string replica_of(const runtime::planted_death& x) {
  const auto begin = x.kind().size() + 1;
  return x.who.substr(begin, x.who.find('.') - begin);
}

/// Whether that event names who died: a worker by its replica.
inline bool names(const nlohmann::json& event, const runtime::planted_death& x) {
  const std::string who = event["who"], why = event["why"];
  const auto kind = x.kind();
  if (flips_bit(x.how))  // of several that differ nobody knows who is wrong
    return who.starts_with("replica") && why.find("STEP-") != std::string::npos;
  const bool hangs = x.how == runtime::death_kind::by_hanging;
  const auto cause = hangs ? "no progress" : x.text;
  if (is_service(kind))
    return who.starts_with(kind) && why.find(cause) != std::string::npos;
  if (kind == "node" || kind == "supervisor")  // with its node a supervisor ends, too
    return (who == kind || who == "supervisor") && why.find(cause) != std::string::npos;
  const auto rank = kind == "replica" ? "" : "stage:" + x.who.substr(x.who.find(':') + 1);
  return who == "replica:" + replica_of(x) && why.find(rank) != std::string::npos
         && why.find(cause) != std::string::npos;
}

/// What is told of one death, of which nobody else died: exactly one replacement, of whom it
/// struck, because of it; from the states that the ranks had, at most one committed step back.
/// `first`: the run's first step.
inline sentences look_at_event(const lived& x,
                               const runtime::planted_death& death,
                               std::uint64_t first) {
  const bool service = is_service(death.kind());
  sentences out;
  std::string told;
  std::vector<nlohmann::json> deaths, wrong;
  for (const auto& event : x.events) {
    told += event.dump() + " ";
    (event["event"] == "wrong bits" ? wrong : deaths).push_back(event);
  }
  if (x.restarts != 1 || deaths.size() != 1)
    return {
        fmt::format("one death, and the ledger has {} restarts, the log: {}", x.restarts, told)};
  const auto& event = deaths.front();
  const bool has_wrong_bits = flips_bit(death.how);
  if (wrong.size() != (has_wrong_bits ? 1 : 0)
      || (has_wrong_bits
          && runtime::without_tensor_zero(wrong.front()["who"].get<std::string>())
                 != runtime::without_tensor_zero("stage" + death.who.substr(4))))
    out.push_back("it does not say whose bits were wrong: " + told);
  if (!names(event, death))
    out.push_back("it does not say who died, and of what: " + told);
  if (event["event"] != (service ? "replaced" : "restart"))
    out.push_back("it is told otherwise: " + told);
  if (service) {
    // No step was disturbed: no generation has ended but the last, and nothing was left behind.
    if (x.left.size() != 1)
      out.push_back(fmt::format("{} generations have ended", x.left.size()));
    if (event.contains("resumed_from"))
      out.push_back("it went back for a service: " + told);
    return out;
  }
  using enum runtime::moment_of_step;
  const bool incomplete = death.at == restore && death.step == first;
  const std::uint64_t newest = event["iteration"], resumed = event["resumed_from"];
  if (event["state_from"] != "estate" && !incomplete)
    out.push_back("states come from elsewhere: " + told);
  if (resumed > newest || resumed + 1 < newest)
    out.push_back("it went back from one step to another that is no neighbour: " + told);
  // Nobody waits for a node that hangs until it is asked for something: steps go on.
  const bool noticed_later = death.kind() == "node" && death.how == runtime::death_kind::by_hanging;
  if (newest + 1 < death.step
      || (death.at < updated && newest + 1 > death.step + 1 && !noticed_later))
    out.push_back("it died at another step: " + told);
  if (event["generation"] <= 1 || event["seconds"] <= 0.0)
    out.push_back("no generation, or no time, was told: " + told);
  return out;
}

}  // namespace troupe::tests
