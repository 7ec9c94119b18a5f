#include "actors/host/opened_job.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {

void job_registry::add(const runtime::registered_functions& known) {
  const std::lock_guard lock(mutex_);
  const auto add_all = [](auto& to, const auto& from) {
    for (const auto& [name, function] : from)
      to.insert_or_assign(name, function);
  };
  add_all(known_.extensions, known.extensions);
  add_all(known_.rates, known.rates);
  add_all(known_.behaviours, known.behaviours);
}

std::shared_ptr<const opened_job> job_registry::open(const messages::job_description& description) {
  const std::lock_guard lock(mutex_);
  auto& found = jobs_[description.settings];
  if (!found) {
    auto job = runtime::job_from_json(description.settings, known_);
    auto seats = runtime::seats_of(job.layout);
    auto pipeline = runtime::pipeline_of(job);
    runtime::process_map placed(job.layout.world, job.layout.processes);
    opened_job out{std::move(job), std::move(seats), std::move(pipeline), std::move(placed)};
    for (const auto layers : runtime::axis_views)
      for (int rank = 0; rank < out.seats.size(); ++rank)
        out.first_alike[layers].push_back(out.seats.alike(rank, layers).front());
    for (int r = 0; r < out.replicas(); ++r) {
      const auto ranks = out.seats.replica(r);
      out.with_writer.push_back(
          std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return out.writes(rank); }));
    }
    found = std::make_shared<const opened_job>(std::move(out));
  }
  return found;
}

}  // namespace troupe::actors
