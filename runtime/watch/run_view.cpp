#include "runtime/watch/run_view.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/telemetry/step_report.hpp"
#include "runtime/watch/view_fields.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

using nlohmann::json;
using namespace view_fields;

void count(view_counts::by_name& to, const std::string& name) {
  const auto known = name.empty() ? "unknown" : name;
  ++to[has_room(to, known) ? known : "other"];
}

/// Adds a point. Beyond the limit, removes every second point of the older half.
void add_point(std::deque<view_point>& to, std::uint64_t iteration, std::optional<double> value) {
  if (!value || !std::isfinite(*value))
    return;
  // Steps that run again replace their earlier points.
  while (!to.empty() && to.back().iteration >= iteration)
    to.pop_back();
  to.push_back({iteration, *value});
  if (to.size() <= run_view::most_points)
    return;
  std::deque<view_point> thinned;
  const auto half = to.size() / 2;
  for (std::size_t i = 0; i < to.size(); ++i)
    if (i >= half || i % 2 == 0)
      thinned.push_back(to[i]);
  to = std::move(thinned);
}

void add_event(run_view& to, const json& x, std::string kind, std::string text) {
  to.events.push_back({field<double>(x, "at"), std::move(kind), std::move(text)});
  if (to.events.size() > run_view::most_events)
    to.events.pop_front();
}

/// Reads all losses: "lm_loss": 4.1 is the loss "lm", and "loss" is the loss "sum". A loss of null
/// is read as NaN.
void take_losses(run_view& to, const json& x) {
  constexpr std::string_view end = "_loss";
  for (const auto& [name, value] : x.items()) {
    const bool is_sum = name == "loss";
    if (!(is_sum || is_loss_key(name)) || !(value.is_number() || value.is_null()))
      continue;
    const auto length = name.ends_with(end) ? name.size() - end.size() : name.size();
    const auto of = is_sum ? "sum" : bounded(name.substr(0, length));
    if (has_room(to.loss_by_name, of))
      to.loss_by_name[of] = value.is_null() ? NAN : value.get<double>();
  }
}

std::optional<view_pipeline> pipeline_of(const json& x) {
  if (!number(x, "bubble"))
    return {};
  return view_pipeline{.seconds = field<double>(x, "pipeline_ms") / 1e3,
                       .planned_seconds = field<double>(x, "planned_pipeline_ms") / 1e3,
                       .bubble = field<double>(x, "bubble"),
                       .planned_bubble = field<double>(x, "planned_bubble")};
}

std::optional<view_experts> experts_of(const json& x) {
  const auto entropy = number(x, "expert_entropy");
  if (!entropy)
    return {};
  return view_experts{.most = field<std::uint64_t>(x, "most_expert_rows"),
                      .least = field<std::uint64_t>(x, "least_expert_rows"),
                      .dropped = field<std::uint64_t>(x, "dropped_expert_rows"),
                      .entropy = *entropy};
}

/// The weighted sum, or the only loss.
std::optional<double> loss_of(const json& x) {
  return number(x, x.contains("loss") ? "loss" : "lm_loss");
}

void take_step(run_view& to, const json& x) {
  to.iteration = field<std::uint64_t>(x, "iteration");
  take_losses(to, x);
  to.consumed_samples = field(x, "consumed_samples", to.consumed_samples);
  to.consumed_tokens = field(x, "consumed_tokens", to.consumed_tokens);
  to.skipped_iterations = field(x, "skipped_iterations", to.skipped_iterations);
  if (auto measured = pipeline_of(x))  // only some steps are timed
    to.pipeline = measured;
  if (auto counted = experts_of(x))
    to.experts = counted;
  to.loss = loss_of(x).value_or(NAN);
  to.grad_norm = number(x, "grad_norm").value_or(NAN);
  to.learning_rate = field<double>(x, "learning_rate");
  to.step_ms = field<double>(x, "elapsed_ms");
  to.tokens_per_second = field<double>(x, "tokens_per_second");
  to.teraflops_per_second = number(x, "teraflops_per_second");
  to.share_of_matrix_rate = number(x, "share_of_matrix_rate");
  add_point(to.losses, to.iteration, loss_of(x));
  add_point(to.speeds, to.iteration, number(x, "tokens_per_second"));
}

void take_validation(run_view& to, const json& x) {
  take_losses(to, x);
  if (const auto test = number(x, "test_loss"))
    add_event(to,
              x,
              "test",
              fmt::format("test loss {:.4f} at {}", *test, field<std::uint64_t>(x, "iteration")));
}

void count_event(view_counts& to, const json& x) {
  const auto event = field<std::string>(x, "event"), verdict = field<std::string>(x, "verdict");
  count(to.events, event);
  if (event == "restart" || event == "move" || event == "rerun") {
    count(to.restarts, field<std::string>(x, "state_from"));
    to.recovery_seconds += std::max(0.0, field<double>(x, "seconds"));
  } else if (event == "wrong bits") {
    count(to.wrong_bits, verdict);
  } else if (event == "straggler" && verdict != "over") {
    count(to.stragglers, verdict);
  }
}

/// The names in "stage:0.0, stage:0.1".
std::vector<std::string> names_of_workers(std::string_view all) {
  constexpr std::string_view between = ", ";
  std::vector<std::string> out;
  while (!all.empty() && out.size() < run_view::most_names) {
    const auto end = std::min(all.find(between), all.size());
    if (end > 0)
      out.emplace_back(all.substr(0, end));
    all.remove_prefix(std::min(end + between.size(), all.size()));
  }
  return out;
}

/// The newest record of a worker counts.
void take_straggler(run_view& to, const json& x) {
  view_straggler now{.who = names_of_workers(field<std::string>(x, "who")),
                     .verdict = field<std::string>(x, "verdict"),
                     .why = field<std::string>(x, "why"),
                     .iteration = field<std::uint64_t>(x, "iteration"),
                     .at = field<double>(x, "at")};
  const std::set<std::string> named(now.who.begin(), now.who.end());
  for (auto& one : to.stragglers)
    std::erase_if(one.who, [&](const auto& who) { return named.contains(who); });
  if (now.verdict != "over")
    to.stragglers.push_back(std::move(now));
  std::erase_if(to.stragglers, [](const auto& one) { return one.who.empty(); });
  std::size_t workers = 0;
  for (const auto& one : to.stragglers)
    workers += one.who.size();
  for (; workers > run_view::most_names; to.stragglers.pop_front())
    workers -= to.stragglers.front().who.size();
}

void take_event(run_view& to, const json& x) {
  count_event(to.counts, x);
  if (const auto event = field<std::string>(x, "event"); event == "straggler")
    take_straggler(to, x);
  else if (event == "restart" || event == "move")
    to.stragglers.clear();  // the run measures its workers again
  auto text = field<std::string>(x, "who");
  if (const auto verdict = field<std::string>(x, "verdict"); !verdict.empty())
    text += " (" + verdict + ")";
  if (const auto why = field<std::string>(x, "why"); !why.empty())
    text += ": " + why;
  if (const auto from = field<std::string>(x, "state_from"); !from.empty())
    text += "; state from " + from;
  if (const auto seconds = number(x, "seconds"); seconds && *seconds > 0)
    text += fmt::format("; recovered after {:.1f} s", *seconds);
  add_event(to, x, field<std::string>(x, "event"), bounded(std::move(text)));
}

void take_member(run_view& to, const json& x) {
  const auto who = field<std::string>(x, "who"), state = field<std::string>(x, "state");
  if (who.empty())
    return;
  if (state == "dead")
    count(to.counts.deaths, who.substr(0, who.find(':')));
  if (state == "left") {
    to.members.erase(who);
    to.processes.erase(who);
    return;
  }
  if (!has_room(to.members, who, run_view::most_members))
    return;
  to.members[who] = {who,
                     state,
                     field<std::string>(x, "process"),
                     field<std::string>(x, "why"),
                     field<double>(x, "at")};
}

void take_save(run_view& to, const json& x) {
  const auto state = field<std::string>(x, "state");
  const auto iteration = field<std::uint64_t>(x, "iteration");
  if (state == "collected")
    return;
  count(to.counts.saves, state);
  if (state == "begun")
    return;
  const auto seconds = number(x, "seconds");  // unknown for a save of an earlier process
  if (state == "written")
    to.saved = view_save{iteration, seconds};
  add_event(
      to,
      x,
      "save",
      state == "written"
          ? fmt::format("iteration {} saved{}",
                        iteration,
                        seconds ? fmt::format(" in {:.1f} s", *seconds) : "")
          : fmt::format("cannot save iteration {}: {}", iteration, field<std::string>(x, "why")));
}

void take_known(run_view& to, const json& x) {
  const auto kind = field<std::string>(x, "kind");
  if (kind == "step")
    take_step(to, x);
  else if (kind == "validation")
    take_validation(to, x);
  else if (kind == "event")
    take_event(to, x);
  else if (kind == "state")
    to.state = field<std::string>(x, "state");
  else if (kind == "timeline")
    take_timeline(to, x);
  else if (kind == "process")
    take_process(to, x);
  else if (kind == "member")
    take_member(to, x);
  else if (kind == "save")
    take_save(to, x);
  else if (kind == "warning") {
    ++to.counts.warnings;
    add_event(to, x, kind, field<std::string>(x, "text"));
  } else if (kind == "command") {
    const auto arguments = x.find("arguments");
    add_event(to,
              x,
              kind,
              fmt::format("{}{} by {}, from iteration {} on",
                          field<std::string>(x, "name"),
                          arguments == x.end() || arguments->empty()
                              ? ""
                              : " " + bounded(json_text_replacing(*arguments)),
                          field<std::string>(x, "by"),
                          field<std::uint64_t>(x, "step")));
  }
  if (kind == "dropped")
    to.dropped += field<std::uint64_t>(x, "count");
  else if (kind == "end") {
    const auto code = x.find("exit_code");
    to.died = code == x.end() || !code->is_number_integer();
    to.exit_code = to.died ? std::nullopt : std::optional(code->get<int>());
    to.end_reason = field<std::string>(x, "reason");
  }
}

}  // namespace

void run_view::take_run(std::string_view text) {
  const auto x = json_value_or_discarded(text);
  if (!x.is_object())
    return;
  if (const auto now = field<std::string>(x, "id"); now != id) {
    run_view empty;
    *this = std::move(empty);
    id = now;
  }
  name = field<std::string>(x, "name");
  program = field<std::string>(x, "program");
  host = field<std::string>(x, "host");
  steps = field<std::uint64_t>(x, "steps");
  started_at = field<double>(x, "started_at");
  if (const auto found = x.find("layout"); found != x.end() && found->is_object())
    for (const auto& [axis, extent] : found->items())
      if (extent.is_number_integer() && has_room(layout, bounded(axis)))
        layout[bounded(axis)] = extent.get<int>();
}

void run_view::take(std::string_view text) {
  if (text.empty())
    return;
  const auto x = json_value_or_discarded(text);
  if (!x.is_object()) {
    ++unread;
    return;
  }
  at = std::max(at, field<double>(x, "at"));
  take_known(*this, x);
}

std::optional<double> run_view::seconds_left() const {
  if (steps <= iteration || step_ms <= 0)
    return {};
  return double(steps - iteration) * step_ms / 1e3;
}

}  // namespace troupe::runtime
