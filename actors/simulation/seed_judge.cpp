#include "actors/simulation/seed_judge.hpp"

#include "actors/simulation/lane_faults.hpp"
#include "runtime/core/error.hpp"

#include <algorithm>
#include <bit>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

namespace troupe::actors::simulation {
namespace {

/// Share of seeds whose models have experts. A stream of its own draws them, so the other seeds
/// keep the jobs and faults with which tests/mutants/protocol.py finds its faults.
constexpr double share_of_experts = 0.2;
constexpr std::uint64_t purpose_of_experts = 10;

/// A recovering run ends after this number of deaths within one step (MEMBER-5).
constexpr std::size_t deaths_in_a_row = 4;

std::size_t accidents(const seen_run& x) {
  return x.killed.size() + x.broken.size();
}

/// Names of dead members and broken connections.
std::vector<std::string> accident_names(const seen_run& x) {
  auto out = x.killed;
  out.insert(out.end(), x.broken.begin(), x.broken.end());
  return out;
}

/// True if a run's reason names this fault as its cause.
bool names(const std::string& reason, const std::string& who) {
  const auto has = [&](const std::string& part) { return reason.find(part) != std::string::npos; };
  return has(fmt::format("{}: {}", who, killed_text))
         || has(fmt::format("{}: {}", who, broken_text))
         || (who.starts_with("process:") && has(who + ": "))
         || (who.ends_with("wrong-bits") && names_wrong_bits(reason));
}

using loss_bits = std::vector<std::pair<std::string, std::uint64_t>>;

/// The bits of each loss of a report and of their sum. A loss over nothing equals itself.
template <class Report>
loss_bits bits_of_losses(const Report& x) {
  loss_bits out = {{"sum", std::bit_cast<std::uint64_t>(x.loss)}};
  for (const auto& one : x.losses)
    out.emplace_back(one.name, std::bit_cast<std::uint64_t>(one.mean));
  return out;
}

void look_at_rest(const seen_run& x, std::vector<std::string>& to) {
  if (!x.end)
    to.push_back(
        fmt::format("the run does not end: after {} turns {}",
                    x.turns,
                    x.outlasts_faults ? "it still runs, without faults" : "nothing is runnable"));
  if (x.leased > 0)
    to.push_back(fmt::format("{} tickets are still leased", x.leased));
  if (!x.actors_left.empty())
    to.push_back(fmt::format("actors are left: {}", fmt::join(x.actors_left, ", ")));
  if (!x.fibers_left.empty())
    to.push_back(fmt::format("work is left on: {}", fmt::join(x.fibers_left, ", ")));
  if (!x.stuck_lanes.empty())
    to.push_back(fmt::format("lanes hang when destroyed: {}", fmt::join(x.stuck_lanes, ", ")));
}

void look_at_steps(const seen_run& x, const seen_run& calm, std::vector<std::string>& to) {
  for (std::size_t i = 0; i < x.committed.size(); ++i) {
    const auto& step = x.committed[i];
    if (step.iteration != i + 1)
      return to.push_back(
          fmt::format("reported step no. {} is step {}, not {}", i + 1, step.iteration, i + 1));
    if (i >= calm.committed.size())
      return to.push_back(
          fmt::format("step {} is beyond the end of the undisturbed run", step.iteration));
    if (step.state != calm.committed[i].state)
      return to.push_back(
          fmt::format("the state after step {} differs from the undisturbed run", step.iteration));
    if (bits_of_losses(step) != bits_of_losses(calm.committed[i]))
      return to.push_back(fmt::format("a loss of step {} differs: their sum is {}, undisturbed {}",
                                      step.iteration,
                                      step.loss,
                                      calm.committed[i].loss));
  }
}

void look_at_records(const seen_run& x, const seen_run& calm, std::vector<std::string>& to) {
  for (std::size_t i = 0; i < x.taken_down.size(); ++i)
    if (x.taken_down[i] != i + 1)
      return to.push_back(
          fmt::format("step no. {} in the monitor's log is step {}", i + 1, x.taken_down[i]));
  for (std::size_t i = 0; i < x.ledger.size(); ++i)
    if (i >= calm.ledger.size() || x.ledger[i] != calm.ledger[i])
      return to.push_back(
          fmt::format("the ledger's state of step {} differs from the undisturbed run", i + 1));
  // All ranks keep the newest step or the one before; only repeated faults roll back further. A
  // broken connection costs no step, however often it breaks (MEMBER-7).
  const bool goes_back = x.state_lost || (!x.killed.empty() && accidents(x) > 2);
  for (const auto& event : x.events)
    if (event.kind == "restart" && !goes_back && event.resumed + 1 < event.iteration)
      to.push_back(fmt::format("after {} steps it resumed from step {}, of {}",
                               event.iteration,
                               event.resumed,
                               event.from));
  std::vector<std::string> told;
  for (const auto& event : x.events)
    told.push_back(fmt::format("{} ({})", event.who, event.why));
  if (x.recovers && x.restarts.size() > accidents(x))
    to.push_back(fmt::format("more restarts than deaths: {} for {}; as reported: {}",
                             fmt::join(x.restarts, ", "),
                             fmt::join(accident_names(x), ", "),
                             fmt::join(told, ", ")));
}

// A failed save is retried at a later iteration; a slow save delays the next one.
void look_at_saved(const seen_run& x, const seen_run& calm, std::vector<std::string>& to) {
  for (const auto& [name, hash] : x.saved)
    if (const auto found = calm.saved.find(name);
        found != calm.saved.end() && found->second != hash)
      to.push_back(fmt::format("saved file {} differs from the undisturbed run", name));
  const auto last = fmt::format("iter_{:07}", x.committed.size());
  const auto is_last
      = [&](const auto& entry) { return entry.first.find(last) != std::string::npos; };
  if (!calm.saved.empty() && !x.committed.empty()
      && std::none_of(x.saved.begin(), x.saved.end(), is_last))
    to.push_back("the last iteration is not saved");
}

void look_at_end(const seen_run& x, const seen_run& calm, std::vector<std::string>& to) {
  if (x.ledger.size() != x.committed.size())
    to.push_back(fmt::format(
        "{} steps are reported, but the ledger has {}", x.committed.size(), x.ledger.size()));
  if (x.taken_down.size() > x.committed.size())
    to.push_back("the monitor received more steps than the viewer");
  if (!x.drained && x.committed.size() != calm.committed.size())
    to.push_back(
        fmt::format("{} of {} steps are committed", x.committed.size(), calm.committed.size()));
  // An actor that sends tensors may die with its tickets. A run that ends early holds batches of a
  // step that it never runs.
  const auto all = accident_names(x);
  const bool all_told = std::all_of(all.begin(), all.end(), [](const std::string& who) {
    return who.starts_with("loader") || who.starts_with("monitor");
  });
  if (all_told && !x.drained && x.dropped > 0)
    to.push_back(fmt::format("{} tickets were never redeemed", x.dropped));
  look_at_saved(x, calm, to);
  if (x.drained)
    return;
  if (x.samples != calm.samples)
    to.push_back(fmt::format("the requested samples differ: {} here, {} undisturbed",
                             x.samples.size(),
                             calm.samples.size()));
  const auto losses = [](const seen_run& of) {
    std::vector<std::pair<std::uint64_t, loss_bits>> out;
    for (const auto& one : of.validated)
      out.emplace_back(one.iteration, bits_of_losses(one));
    return out;
  };
  if (losses(x) != losses(calm))
    to.push_back("the validations differ from the undisturbed run");
}

}  // namespace

std::vector<std::string> complaints(const seen_run& seen, const seen_run& undisturbed) {
  std::vector<std::string> out;
  look_at_rest(seen, out);
  look_at_steps(seen, undisturbed, out);
  look_at_records(seen, undisturbed, out);
  if (!seen.end)
    return out;
  const bool failed = seen.end->exit_code != 0;
  if (!failed)
    look_at_end(seen, undisturbed, out);
  else if (accidents(seen) == 0)
    out.push_back(fmt::format("the run ended early without a fault: {}", seen.end->reason));
  else if (seen.recovers && seen.killed.size() < deaths_in_a_row
           && seen.broken.size() < deaths_in_a_row)
    out.push_back(fmt::format("a death ended the run: {}", seen.end->reason));
  else if (const auto all = accident_names(seen);
           std::none_of(all.begin(), all.end(), [&](const std::string& who) {
             return names(seen.end->reason, who);
           }))
    out.push_back(fmt::format("{} died, but the reason names another cause: {}",
                              fmt::join(all, " and "),
                              seen.end->reason));
  return out;
}

seed_judge::seed_judge(std::filesystem::path folder, const runtime::model_family& of)
    : folder_(std::move(folder)), family_(of) {
  std::filesystem::create_directories(folder_);
}

seed_judge::~seed_judge() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

bool seed_judge::is_repeated(std::uint64_t seed) {
  return mixed(seed ^ 0x7261u) % 100 == 0;
}

seed_judge::shape_state& seed_judge::shape(std::uint64_t number) {
  const auto found = shapes_.find(number);
  if (found != shapes_.end())
    return found->second;
  const auto folder = folder_ / "checkpoints";
  shape_state made{prepare_small(small_job(number, folder, false, 1, family_)), {}, {}};
  made.undisturbed = play(made.job, {});
  const auto& job = made.job.job.opened().job;
  if (auto wrong = complaints(made.undisturbed, made.undisturbed);
      !wrong.empty() || made.undisturbed.committed.size() != job.train_iterations)
    throw runtime::broken_promise(fmt::format(
        "the undisturbed run of {} is wrong: {}", describe_shape(job), fmt::join(wrong, "; ")));
  return shapes_.emplace(number, std::move(made)).first->second;
}

const small_prepared& seed_judge::job_of(shape_state& x,
                                         std::uint64_t number,
                                         bool recovers,
                                         int processes) {
  if (!recovers && processes == 1)
    return x.job;
  const std::pair which(recovers, processes);
  const auto found = x.others.find(which);
  if (found != x.others.end())
    return found->second;
  const auto job = small_job(number, folder_ / "checkpoints", recovers, processes, family_);
  return x.others.emplace(which, prepare_small(job)).first->second;
}

seed_verdict seed_judge::judge(std::uint64_t seed, const seed_options& options) {
  choices from(seed, 0);
  auto number = from.below(job_shapes);
  if (choices(seed, purpose_of_experts).happens(share_of_experts))
    number += expert_shapes;
  auto& of_shape = shape(number);
  choices where(seed, 3);
  const bool recovers = where.happens(0.75);
  const int processes = where.one_of({1, 1, 2, 3, 4}), hosts = int(1 + where.below(3));
  const auto& about = job_of(of_shape, number, recovers, processes);
  const auto& job = about.job.opened().job;
  run_plan how{.seed = seed,
               .how = draw_mix(from),
               .hosts = std::min(hosts, job.layout.processes),
               .disturbances = draw_disturbances(from, recovers, job.layout.processes)};
  seed_verdict out;
  const auto once = [&](const std::function<void(std::string_view)>& to) {
    how.trace = std::make_shared<turn_trace>(to);
    how.trace->note(fmt::format("seed {}", seed));
    how.trace->note(describe_shape(job));
    how.trace->note(to_string(how.how));
    const auto seen = play(about, how);
    out.turns = seen.turns;
    out.ns = seen.ns;
    out.died = !seen.killed.empty();
    out.broke = !seen.broken.empty();
    out.wrong = complaints(seen, of_shape.undisturbed);
    for (const auto& x : out.wrong)
      how.trace->note(x);
    return how.trace->hash();
  };
  out.hash = once(options.trace);
  if (out.wrong.empty() && is_repeated(seed) && once({}) != out.hash)
    out.wrong.push_back("a second run made other choices: it depends on more than the seed");
  return out;
}

}  // namespace troupe::actors::simulation
