#include "actors/host/opened_job.hpp"

#include <algorithm>
#include <utility>

namespace troupe::actors {

opened_job::opened_job(runtime::training_job of, runtime::seats all, runtime::job_pipeline cut)
    : job(std::move(of)),
      seats(std::move(all)),
      pipeline(std::move(cut)),
      placed(runtime::placed_of(job.layout)),
      span(seats.span()) {
  for (const auto layers : runtime::axis_views) {
    auto& first = first_alike[layers];
    auto& index = index_alike[layers];
    first.assign(std::size_t(seats.size()), -1);
    index.assign(std::size_t(seats.size()), 0);
    for (int rank = 0; rank < seats.size(); ++rank) {
      if (first[std::size_t(rank)] >= 0)
        continue;
      int& number = alike_each[layers] = 0;
      for (const int other : seats.alike(rank, layers)) {
        first[std::size_t(other)] = rank;
        index[std::size_t(other)] = number++;
      }
    }
  }
  for (int r = 0; r < replicas(); ++r)
    with_writer.push_back(
        std::ranges::any_of(seats.replica(r), [this](int rank) { return writes(rank); }));
}

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
    found
        = std::make_shared<const opened_job>(std::move(job), std::move(seats), std::move(pipeline));
  }
  return found;
}

}  // namespace troupe::actors
