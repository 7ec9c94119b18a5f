// Adds records for viewers: the run's state and its members (docs/formats/telemetry.md).

#include "actors/supervisor/supervised_run.hpp"
#include "runtime/core/json_text.hpp"

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
  for (int r = 0; r < job->replicas(); ++r)
    for (int s = 0; s < job->seats.stages(); ++s)
      if (!process || process_of(r, s) == *process)
        show_member({.name = name_of_stage(r, s), .lives_in = process_of(r, s)}, state, why);
}

}  // namespace troupe::actors
