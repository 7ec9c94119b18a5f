// Reports the current wait of a stage to the failure detector.

#include "actors/stage/stage.hpp"
#include "actors/stage/stage_context.hpp"
#include "runtime/trainer/verification.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace troupe::actors {

std::string stage_state::name_of_rank(int pipeline_rank) const {
  const auto& seats = job_->seats;
  return seats.name(seats.beside(told_.rank, runtime::axis::pipeline, pipeline_rank));
}

void stage_state::take_places() {
  if (!job_->job.recovery.on || !node_->env.watches_lanes)
    return;
  const auto generation = value(told_.generation);
  int at = 0;
  for (const auto* kind : {"lane:", "wire:", "saver:"})
    context_->places[at++] = node_->lanes->add({.who = kind + where_,
                                                .generation = generation,
                                                .owner = who_,
                                                .communication_lane = "wire:" + where_,
                                                .saver = "saver:" + where_});
  if (node_->env.own_threads)
    place_ = node_->lanes->add({.who = who_, .generation = generation, .shares_thread = true});
}

// Work of its lanes comes first: other waits matter only after it has ended.
runtime::lane_board::place::waiting stage_state::waits_for() const {
  runtime::lane_board::place::waiting out{.step = runtime::value(step_)};
  auto& what = out.what.what;
  auto& whom = out.what.whom;
  if (!after_.empty()) {
    what = "work of its lanes";
    whom.push_back("lane:" + where_);
    if (communication_lane_)
      whom.push_back("wire:" + where_);
    if (saver_)
      whom.push_back("saver:" + where_);
  }
  if (!now_) {
    if (after_.empty())
      out.what = {"the next order", {"replica:" + std::to_string(replica_)}};
    return out;
  }
  if (now_->next >= now_->row.size()) {
    if (now_->checks_submitted < now_->checks.size()) {
      what += fmt::format("{}a pass to recompute", what.empty() ? "" : "; ");
      const int whose = runtime::verified_by(replica_, job_->replicas(), job_->span);
      whom.push_back(job_->stage_name(job_->seats.beside(told_.rank, runtime::axis::data, whose)));
    }
    return out;
  }
  const auto& x = now_->row[now_->next];
  const auto at = pass_of(x);
  const auto is_missing = [&](arrival kind) { return !inbox_.contains({kind, at}); };
  const auto add = [&](const char* missing, std::string from) {
    what += fmt::format(
        "{}{} for {}", what.empty() ? "" : "; ", missing, to_string(x, now_->plan->copies));
    whom.push_back(std::move(from));
  };
  const auto stage_of
      = [&](runtime::chunk_id chunk) { return "stage:" + name_of_rank(rank_of(chunk, x.copy)); };
  if (const auto credits = credits_for(x); credits > 0) {
    const bool gradient = x.kind != runtime::action_kind::forward;
    const auto found = handed_on_.find({x.copy, x.chunk, gradient});
    if (found != handed_on_.end() && found->second.lent >= credits)
      add("a credit", stage_of(gradient ? runtime::chunk_id(value(x.chunk) - 1) : next(x.chunk)));
  }
  if (x.kind == runtime::action_kind::forward) {
    if (takes_batch(x.chunk) && is_missing(arrival::batch))
      add("a batch", "loader");
    if (takes_activation(x.chunk) && is_missing(arrival::activation))
      add("an activation", stage_of(runtime::chunk_id(value(x.chunk) - 1)));
  } else if (begins_backward(x) && takes_gradient(x.chunk) && is_missing(arrival::gradient)) {
    add("a gradient", stage_of(next(x.chunk)));
  }
  return out;
}

}  // namespace troupe::actors
