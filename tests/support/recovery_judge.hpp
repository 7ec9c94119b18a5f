// Compares a run with deaths with an undisturbed one and checks the logged events. Each function
// returns complaints as sentences; an empty result means success.

#pragma once

#include "runtime/job/planted_death.hpp"
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

/// The run ended well: the log has each step once, in order; each sample was requested; no ticket
/// is left.
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
        fmt::format("{} samples were requested, {} expected", x.samples.size(), samples.size()));
  if (x.left_at_end() != 0 || x.leased != 0)
    out.push_back(
        fmt::format("{} tickets are left at the end, {} are leased", x.left_at_end(), x.leased));
  if (x.left.empty())
    out.push_back("no generation ended");
  if (!x.waiting.empty())
    out.push_back(fmt::format("planted deaths did not fire: {}", fmt::join(x.waiting, ", ")));
  return out;
}

/// Both runs have the same steps with the same states, the same validations and the same
/// checkpoint.
inline sentences look_at_same(const lived& x, const lived& calm) {
  sentences out;
  const auto other
      = std::mismatch(x.steps.begin(), x.steps.end(), calm.steps.begin(), calm.steps.end());
  if (other.first != x.steps.end() || other.second != calm.steps.end())
    out.push_back(fmt::format("step {} differs: {} instead of {}",
                              other.first - x.steps.begin() + 1,
                              other.first == x.steps.end() ? "none" : other.first->dump(),
                              other.second == calm.steps.end() ? "none" : other.second->dump()));
  if (x.validations != calm.validations)
    out.push_back(fmt::format("validations differ: {}", fmt::join(x.validations, ", ")));
  if (x.saved != calm.saved)
    out.push_back(fmt::format("the newest checkpoint is of iteration {}", x.saved));
  return out;
}

inline bool is_service(std::string_view kind) {
  return kind == "loader" || kind == "checkpointer" || kind == "monitor";
}

/// Lets the run detect a planted hang before it ends. A node gets no requests between two deaths,
/// so the steps are slowed down until the failure detector suspects it.
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

/// True if the event names the dead actor and the cause. A worker appears under its replica.
inline bool names(const nlohmann::json& event, const runtime::planted_death& x) {
  const std::string who = event["who"], why = event["why"];
  const auto kind = x.kind();
  if (flips_bit(x.how))  // when replicas differ, it is unknown which one is wrong
    return who.starts_with("replica") && why.find("STEP-") != std::string::npos;
  const bool hangs = x.how == runtime::death_kind::by_hanging;
  const auto cause = hangs ? "no progress" : x.text;
  if (is_service(kind))
    return who.starts_with(kind) && why.find(cause) != std::string::npos;
  if (kind == "node" || kind == "supervisor")  // a supervisor ends with its node
    return (who == kind || who == "supervisor") && why.find(cause) != std::string::npos;
  const auto rank = kind == "replica" ? "" : "stage:" + x.who.substr(x.who.find(':') + 1);
  return who == "replica:" + replica_of(x) && why.find(rank) != std::string::npos
         && why.find(cause) != std::string::npos;
}

/// Checks the logged events of a single death: exactly one restart or replacement, with the dead
/// actor and the cause. A restart continues from the ranks' own states, at most one committed step
/// back. `first`: the run's first step.
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
        fmt::format("after one death the ledger has {} restarts; events: {}", x.restarts, told)};
  const auto& event = deaths.front();
  const bool has_wrong_bits = flips_bit(death.how);
  if (wrong.size() != (has_wrong_bits ? 1 : 0)
      || (has_wrong_bits
          && runtime::without_tensor_zero(wrong.front()["who"].get<std::string>())
                 != runtime::without_tensor_zero("stage" + death.who.substr(4))))
    out.push_back("no event names the rank with the wrong bits: " + told);
  if (!names(event, death))
    out.push_back("the event does not name the dead actor and the cause: " + told);
  if (event["event"] != (service ? "replaced" : "restart"))
    out.push_back("the event has another type: " + told);
  if (service) {
    // A service does not disturb steps: only the last generation ends.
    if (x.left.size() != 1)
      out.push_back(fmt::format("{} generations ended", x.left.size()));
    if (event.contains("resumed_from"))
      out.push_back("the run went back because of a service: " + told);
    return out;
  }
  using enum runtime::moment_of_step;
  const bool incomplete = death.at == restore && death.step == first;
  const std::uint64_t newest = event["iteration"], resumed = event["resumed_from"];
  if (event["state_from"] != "estate" && !incomplete)
    out.push_back("states do not come from the ranks' estates: " + told);
  if (resumed > newest || resumed + 1 < newest)
    out.push_back("the run went back by more than one step: " + told);
  // Steps go on while a node hangs, until it gets a request.
  const bool noticed_later = death.kind() == "node" && death.how == runtime::death_kind::by_hanging;
  if (newest + 1 < death.step
      || (death.at < updated && newest + 1 > death.step + 1 && !noticed_later))
    out.push_back("the death came at another step: " + told);
  if (event["generation"] <= 1 || event["seconds"] <= 0.0)
    out.push_back("the event lacks its generation or its duration: " + told);
  return out;
}

}  // namespace troupe::tests
