// Adds records for viewers: the run's state and its members (docs/formats/telemetry.md).

#include "actors/supervisor/supervised_run.hpp"
#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <string>
#include <utility>

namespace troupe::actors {

void supervised_run::show(const char* state) {
  if (!context->records || std::exchange(shown, state) == state)
    return;
  context->records->add_newest(
      "state", "run", [state, at = at.iteration, generation = runtime::value(generation())] {
        return runtime::json_text(
            nlohmann::json{{"state", state}, {"iteration", at}, {"generation", generation}});
      });
}

void supervised_run::show_member(const residence& where,
                                 const char* state,
                                 const std::string& why) const {
  if (!context->records)
    return;
  context->records->add_newest(
      "member",
      where.name,
      [where, state, why, at = runtime::value(generation()), several = processes() > 1] {
        const bool elsewhere = several && where.lives_in != home_process;
        const auto process
            = elsewhere ? fmt::format("node-{}", where.lives_in) : std::string("supervisor");
        return runtime::json_text_replacing(nlohmann::json{{"who", where.name},
                                                           {"state", state},
                                                           {"generation", at},
                                                           {"process", process},
                                                           {"why", why}});
      });
}

void supervised_run::show_process(int process, const char* state, const std::string& why) const {
  show_member({.name = fmt::format("node-{}", process), .lives_in = process}, state, why);
}

void supervised_run::show_stages(const char* state,
                                 std::optional<int> process,
                                 const std::string& why) const {
  if (!context->records)
    return;
  const auto show_rank = [&](int rank) {
    show_member(
        {.name = job->stage_name(rank), .lives_in = job->placed.process_of(rank)}, state, why);
  };
  if (process)
    std::ranges::for_each(job->placed.ranks_of(*process), show_rank);
  for (int r = 0; !process && r < job->replicas(); ++r)
    std::ranges::for_each(job->seats.replica(r), show_rank);
}

}  // namespace troupe::actors
