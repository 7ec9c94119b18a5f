// Adds the supervisor's records for viewers: the run's state, members, saves and gradient norms
// (docs/formats/telemetry.md).

#include "actors/supervisor/supervisor.hpp"
#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <string>
#include <utility>

namespace troupe::actors {
namespace {

constexpr std::size_t bytes_of_norm = 80;  // of a name and a number

}  // namespace

void supervisor_state::show(const char* state) {
  if (!context_->records || std::exchange(shown_, state) == state)
    return;
  context_->records->add_newest(
      "state", "run", [state, at = at_.iteration, generation = runtime::value(generation())] {
        return runtime::json_text(
            nlohmann::json{{"state", state}, {"iteration", at}, {"generation", generation}});
      });
}

void supervisor_state::show_member(const residence& where,
                                   const char* state,
                                   const std::string& why) const {
  if (!context_->records)
    return;
  context_->records->add_newest(
      "member",
      where.name,
      [where, state, why, at = runtime::value(generation()), several = processes_.size() > 1] {
        const bool elsewhere = several && where.lives_in != home;
        const auto process
            = elsewhere ? fmt::format("node-{}", where.lives_in) : std::string("supervisor");
        return runtime::json_text_replacing(nlohmann::json{{"who", where.name},
                                                           {"state", state},
                                                           {"generation", at},
                                                           {"process", process},
                                                           {"why", why}});
      });
}

void supervisor_state::show_process(int process, const char* state, const std::string& why) const {
  show_member({.name = fmt::format("node-{}", process), .lives_in = process}, state, why);
}

void supervisor_state::show_stages(const char* state,
                                   std::optional<int> process,
                                   const std::string& why) const {
  for (int r = 0; r < job_->replicas(); ++r)
    for (int s = 0; s < job_->seats.stages(); ++s)
      if (!process || process_of(r, s) == *process)
        show_member({.name = name_of_stage(r, s), .lives_in = process_of(r, s)}, state, why);
}

void supervisor_state::show_keepers(const std::vector<int>& of) const {
  if (!context_->records)
    return;
  context_->records->add_newest("keepers", "run", [of] {
    auto all = nlohmann::json::array();
    for (std::size_t p = 0; p < of.size(); ++p)
      all.push_back(
          nlohmann::json{{"of", fmt::format("node-{}", p)}, {"by", fmt::format("node-{}", of[p])}});
    return runtime::json_text(nlohmann::json{{"keepers", std::move(all)}});
  });
}

void supervisor_state::show_save(const char* state,
                                 std::uint64_t iteration,
                                 const std::string& why) const {
  if (!context_->records)
    return;
  const auto now = clock_ns();
  const double seconds = double(now - std::min(now, save_began_ns_)) / 1e9;
  context_->records->add("save", [state, iteration, why, seconds, path = told_.save] {
    return runtime::json_text_replacing(nlohmann::json{{"iteration", iteration},
                                                       {"state", state},
                                                       {"seconds", seconds},
                                                       {"path", path},
                                                       {"why", why}});
  });
}

// Votes carry norms of the scaled loss. One factor converts them all to the scale of `grad_norm`.
void supervisor_state::show_norms(const runtime::square_norms& all, double grad_norm) {
  if (control_.parameters.empty())
    for (const auto& [name, sum] : all)
      control_.parameters.insert(name);
  if (!context_->records || at_.iteration >= control_.norms_until)
    return;
  const auto total = runtime::total_norm(all);
  std::map<std::string, double> of;
  for (const auto& [name, sum] : all)
    if (name.starts_with(control_.norms_of))
      of[name] = total > 0 ? std::sqrt(sum.value()) * (grad_norm / total) : 0;
  const auto bytes = of.size() * bytes_of_norm;
  context_->records->add_sample("norms", "", bytes, [of = std::move(of), step = at_.iteration + 1] {
    return runtime::json_text(nlohmann::json{{"iteration", step}, {"gradients", of}});
  });
}

void supervisor_state::tell_monitor_of_processes() {
  if (!context_->records || !monitor_ || processes_.size() == 1)
    return;
  messages::use_processes told{.generation = generation()};
  for (const auto& x : processes_)
    told.nodes.push_back(x.node);
  context_->messages->send_at_once(self_, monitor_, std::move(told));
}

}  // namespace troupe::actors
