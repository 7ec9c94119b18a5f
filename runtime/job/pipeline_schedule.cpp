#include "runtime/job/pipeline_schedule.hpp"

#include "runtime/core/error.hpp"
#include "runtime/file/file.hpp"
#include "runtime/schedule/automatic.hpp"
#include "runtime/schedule/check.hpp"
#include "runtime/schedule/csv.hpp"
#include "runtime/schedule/plan_graph.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <tuple>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

constexpr const char* flag = "`layout.schedule.source`";

std::string name_of(const schedule_settings& settings) {
  if (settings.own)
    return settings.own->name;
  if (!settings.source.empty())
    return settings.source;
  return settings.chunks_per_rank > 1 ? "interleaved" : "1f1b";
}

std::string known_names() {
  std::string out;
  for (const auto& x : named_schedules())
    out += (out.empty() ? "" : ", ") + std::string(x.name);
  return out;
}

/// The extension if the schedule is in a file, else empty.
std::string file_kind(const schedule_settings& settings) {
  const auto extension = settings.own ? "" : fs::path(settings.source).extension().string();
  return extension == ".csv" || extension == ".lua" ? extension : "";
}

plan read_plan(const std::string& text, const std::string& path, int ranks) {
  auto out = plan_from_csv(text, path);
  for (auto& row : out.ranks)  // the actors perform what lowering adds
    std::erase_if(row, [](const action& x) { return !is_work(x.kind); });
  if (int(out.ranks.size()) != ranks)
    throw input_error("{} '{}' has {} rows, one a rank, but `layout.pipeline` is {}",
                      flag,
                      path,
                      out.ranks.size(),
                      ranks);
  return out;
}

void require_chunks(const schedule_settings& settings, int of_schedule) {
  if (settings.chunks_per_rank > 0 && of_schedule > 0 && settings.chunks_per_rank != of_schedule)
    throw input_error(
        "{} '{}' has {} chunks a rank, but `layout.schedule.chunks_per_rank` says {}: leave "
        "that out, or give another schedule",
        flag,
        settings.source,
        of_schedule,
        settings.chunks_per_rank);
}

/// Scripts and files do not use these options.
void require_no_options(const schedule_settings& settings, const std::string& name) {
  const bool group = settings.group > 0;
  if (group || settings.memory_limit > 0)
    throw input_error("{} has no effect on {} '{}', which defines the order itself: leave it out",
                      group ? "`layout.schedule.group`" : "`layout.schedule.memory_limit`",
                      flag,
                      name);
}

/// Why a sound plan does not fit a training step by workers. Empty: it fits.
std::string misfit_of(const plan& x) {
  if (!x.training)
    return "it has no backward pass: a training step needs B, or I and W, for each F";
  for (int c = 0; x.copies > 1 && c < x.chunks; ++c)
    if (x.rank_of(chunk_id(c), copy_id(0)) == x.rank_of(chunk_id(c), copy_id(1)))
      return fmt::format("both copies of stage {} are on rank {}: they need different ranks",
                         c,
                         x.rank_of(chunk_id(c)));
  for (const auto& row : x.ranks) {
    std::map<std::tuple<copy_id, chunk_id, microbatch_id>, int> last;
    for (const auto& a : row) {
      if (x.blocks.empty() || a.kind != action_kind::weight_gradients)
        continue;
      const auto [found, first] = last.try_emplace({a.copy, a.chunk, a.microbatch}, a.block);
      if (!first && std::exchange(found->second, a.block) < int(a.block))
        return fmt::format(
            "{} comes after W of a lower block: weight gradients need the order of I, the last "
            "block first",
            to_string(a, x.copies));
    }
  }
  return "";
}

}  // namespace

schedule_settings with_text(schedule_settings settings) {
  if (settings.text.empty() && !file_kind(settings).empty())
    settings.text = read_text(settings.source);
  return settings;
}

pipeline_schedule::pipeline_schedule(schedule_settings settings, int ranks, int microbatches)
    : settings_(with_text(std::move(settings))), name_(name_of(settings_)), ranks_(ranks) {
  const auto kind = file_kind(settings_);
  if (!kind.empty() || settings_.own)
    require_no_options(settings_, name_);
  if (kind == ".csv") {
    file_ = read_plan(settings_.text, name_, ranks);
    require_chunks(settings_, file_->chunks % ranks == 0 ? file_->chunks / ranks : 0);
  } else if (kind == ".lua") {
    script_.emplace(name_, settings_.text);
    require_chunks(settings_, script_->chunks_per_rank());
    if (script_->is_behaviour())
      behaviours_ = script_->behaviours();
  } else if (settings_.own) {
    behaviours_ = settings_.own;
    require_chunks(settings_, behaviours_->chunks_per_rank);
  } else if (const auto* named = find_schedule(name_)) {
    require_chunks(settings_, named->other_chunks ? 0 : named->chunks_per_rank);
  } else {
    throw input_error(
        "{} '{}': there is no such schedule, and the name does not end in .csv or .lua; "
        "give one of {}, or a file FILE.csv or FILE.lua",
        flag,
        name_,
        known_names());
  }
  frame_ = checked(microbatches);
  in_order_ = runtime::accumulates_in_order(*frame_);
}

std::vector<chunk_copy> pipeline_schedule::hosted_by(int rank) const {
  std::vector<chunk_copy> out;
  for (int c = 0; c < chunks(); ++c)
    for (int k = 0; k < copies(); ++k)
      if (rank_of(chunk_id(c), copy_id(k)) == rank)
        out.push_back({chunk_id(c), copy_id(k)});
  return out;
}

std::vector<std::string> pipeline_schedule::notes() const {
  const std::lock_guard lock(mutex_);
  return notes_;
}

std::string pipeline_schedule::order_of_sums() const {
  if (in_order_)
    return "";
  std::map<std::pair<copy_id, chunk_id>, std::string> orders;
  for (const auto& row : frame_->ranks)
    for (const auto& x : row)
      if (x.kind == action_kind::backward || x.kind == action_kind::weight_gradients)
        orders[{x.copy, x.chunk}] += fmt::format("{},", value(x.microbatch));
  std::string out;
  for (const auto& [where, order] : orders)
    out += fmt::format("{} {}: {}\n", value(where.first), value(where.second), order);
  return out;
}

void pipeline_schedule::recompute(std::vector<std::vector<char>> blocks) {
  const std::lock_guard lock(mutex_);
  blocks_ = std::move(blocks);
  training_.clear();
}

cost_model pipeline_schedule::costs_of_chunks(int chunks) const {
  auto out = shared_costs(settings_.costs, double(chunks) / ranks_);
  out.transfer = settings_.transfer;
  return out;
}

plan pipeline_schedule::make(int microbatches) const {
  if (file_) {
    if (file_->microbatches != microbatches)
      throw input_error(
          "{} '{}' is a plan for {} micro-batches, but a step has {}: change `batch.global`, "
          "`batch.micro` or `batch.ramp`, or write another plan",
          flag,
          name_,
          file_->microbatches,
          microbatches);
    return *file_;
  }
  if (behaviours_) {
    const auto costs = costs_of_chunks(ranks_ * behaviours_->chunks_per_rank);
    return rehearse(*behaviours_, ranks_, microbatches, costs, settings_.credits);
  }
  if (script_)
    return script_->make_plan(ranks_, microbatches);
  const schedule_request request{.ranks = ranks_,
                                 .chunks_per_rank = settings_.chunks_per_rank,
                                 .microbatches = microbatches,
                                 .group = settings_.group,
                                 .memory_limit = settings_.memory_limit,
                                 .costs = settings_.costs,
                                 .transfer = settings_.transfer};
  return name_ == "auto" ? search(request) : generate(name_, request);
}

plan pipeline_schedule::search(const schedule_request& request) const {
  auto found = find_best(request);
  notes_.push_back(
      fmt::format("auto: {}, for {} micro-batches {:.2f} % above the lower bound by the "
                  "given times",
                  found.from,
                  request.microbatches,
                  100 * (found.makespan / found.lower_bound - 1)));
  return std::move(found.what);
}

std::shared_ptr<const plan> pipeline_schedule::checked(int microbatches) const {
  auto out = make(microbatches);
  const auto report = check_plan(out);
  if (!report.is_sound())
    throw input_error("{} '{}' cannot be executed: {}{}",
                      flag,
                      name_,
                      report.complaints.front(),
                      report.complaints.size() == 1
                          ? ""
                          : fmt::format(" (and {} more errors: see `troupe schedule check`)",
                                        report.complaints.size() - 1));
  if (const auto wrong = misfit_of(out); !wrong.empty())
    throw input_error("{} '{}' cannot be executed: {}", flag, name_, wrong);
  for (const auto& note : report.notes)
    if (std::find(notes_.begin(), notes_.end(), note) == notes_.end())
      notes_.push_back(note);
  if (frame_ && (frame_->placement != out.placement || frame_->copies != out.copies))
    throw input_error(
        "{} '{}' places the chunks of the model differently for {} micro-batches and for {}: a "
        "run with steps of several sizes needs one placement",
        flag,
        name_,
        microbatches,
        frame_->microbatches);
  training_credits_[microbatches] = checked_credits(out);
  return std::make_shared<const plan>(std::move(out));
}

std::shared_ptr<const handoff_credits> pipeline_schedule::checked_credits(const plan& of) const {
  auto out = credits_of(of, costs_of_chunks(of.chunks), settings_.credits);
  if (const auto wrong = check_handoffs(of, out); !wrong.empty())
    throw input_error(
        "`layout.schedule.credits` {} is too few for {} '{}', a step of {} micro-batches: {}; give "
        "more, or leave it out",
        settings_.credits,
        flag,
        name_,
        of.microbatches,
        wrong.front());
  return std::make_shared<const handoff_credits>(std::move(out));
}

// `settings_.credits` applies to training steps, which are checked before the run. A validation has
// a fixed order; if it would deadlock with that many credits, it gets as many as it needs.
std::shared_ptr<const handoff_credits> pipeline_schedule::credits_of_validation(
    const plan& of) const {
  const auto costs = costs_of_chunks(of.chunks);
  auto out = credits_of(of, costs, settings_.credits);
  for (int more = settings_.credits + 1; !check_handoffs(of, out).empty(); ++more)
    out = credits_of(of, costs, more);
  return std::make_shared<const handoff_credits>(std::move(out));
}

std::shared_ptr<const plan> pipeline_schedule::plain(int microbatches) const {
  const std::lock_guard lock(mutex_);
  return plain_of(microbatches);
}

std::shared_ptr<const plan> pipeline_schedule::plain_of(int microbatches) const {
  auto& out = plain_[microbatches];
  if (!out)
    out = microbatches == frame_->microbatches ? frame_ : checked(microbatches);
  return out;
}

std::shared_ptr<const plan> pipeline_schedule::training(int microbatches) const {
  const std::lock_guard lock(mutex_);
  auto& out = training_[microbatches];
  if (!out) {
    const auto plain = plain_of(microbatches);
    if (!plain->blocks.empty() && plain->blocks != blocks_)
      throw input_error(
          "{} '{}' itself lists recomputation (R, or blocks such as 0I3.1), and differs from "
          "`recompute.granularity` and its options: leave it out of the plan, and these options "
          "add it",
          flag,
          name_);
    out = blocks_.empty() || !plain->blocks.empty()
              ? plain
              : std::make_shared<const plan>(with_recomputation(*plain, blocks_));
  }
  return out;
}

std::shared_ptr<const plan> pipeline_schedule::validation(int microbatches) const {
  const std::lock_guard lock(mutex_);
  return validation_of(microbatches);
}

std::shared_ptr<const plan> pipeline_schedule::validation_of(int microbatches) const {
  auto& out = validation_[microbatches];
  if (!out) {
    const auto first = frame_->placement.begin();
    auto made = forward_only(ranks_, {first, first + frame_->chunks}, microbatches);
    validation_credits_[microbatches] = credits_of_validation(made);
    out = std::make_shared<const plan>(std::move(made));
  }
  return out;
}

// Blocks divide an action of the plan without moving it, so the hand-offs and their order stay the
// same.
std::shared_ptr<const handoff_credits> pipeline_schedule::training_credits(int microbatches) const {
  const std::lock_guard lock(mutex_);
  plain_of(microbatches);
  return training_credits_.at(microbatches);
}

std::shared_ptr<const handoff_credits> pipeline_schedule::validation_credits(
    int microbatches) const {
  const std::lock_guard lock(mutex_);
  validation_of(microbatches);
  return validation_credits_.at(microbatches);
}

}  // namespace troupe::runtime
