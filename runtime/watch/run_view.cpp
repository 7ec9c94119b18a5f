#include "runtime/watch/run_view.hpp"

#include "runtime/core/json_text.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <utility>

namespace troupe::runtime {
namespace {

using nlohmann::json;

/// Cuts a text to `most_text` bytes, between UTF-8 characters.
std::string bounded(std::string text) {
  if (text.size() <= run_view::most_text)
    return text;
  auto end = run_view::most_text;
  while (end > 0 && (text[end] & 0xc0) == 0x80)
    --end;
  text.resize(end);
  return text;
}

/// The value of a field, or `otherwise` if it is missing or of another type.
template <class Value>
Value field(const json& in, const char* name, Value otherwise = {}) {
  const auto found = in.find(name);
  if (found == in.end())
    return otherwise;
  if constexpr (std::is_same_v<Value, std::string>)
    return found->is_string() ? bounded(found->get<std::string>()) : otherwise;
  else if constexpr (std::is_floating_point_v<Value>)
    return found->is_number() ? found->get<Value>() : otherwise;
  else if constexpr (std::is_unsigned_v<Value>)
    return found->is_number_unsigned() ? found->get<Value>() : otherwise;
  else
    return found->is_number_integer() ? found->get<Value>() : otherwise;
}

std::optional<double> number(const json& in, const char* name) {
  const auto found = in.find(name);
  return found != in.end() && found->is_number() ? std::optional(found->get<double>())
                                                 : std::nullopt;
}

const json& list(const json& in, const char* name) {
  static const json none = json::array();
  const auto found = in.find(name);
  return found != in.end() && found->is_array() ? *found : none;
}

std::vector<std::string> texts(const json& in, const char* name, std::size_t most) {
  std::vector<std::string> out;
  for (const auto& x : list(in, name))
    if (x.is_string() && out.size() < most)
      out.push_back(bounded(x.get<std::string>()));
  return out;
}

bool has_room(const auto& names, const auto& name, std::size_t most = run_view::most_names) {
  return names.size() < most || names.contains(name);
}

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

/// Reads all losses: "lm_loss": 4.1 is the loss "lm". A loss of null is read as NaN.
void take_losses(run_view& to, const json& x) {
  constexpr std::string_view end = "_loss";
  for (const auto& [name, value] : x.items()) {
    if (!name.ends_with(end) || !(value.is_number() || value.is_null()))
      continue;
    const auto of = bounded(name.substr(0, name.size() - end.size()));
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

void take_step(run_view& to, const json& x) {
  to.iteration = field<std::uint64_t>(x, "iteration");
  take_losses(to, x);
  to.consumed_samples = field(x, "consumed_samples", to.consumed_samples);
  to.consumed_tokens = field(x, "consumed_tokens", to.consumed_tokens);
  to.skipped_iterations = field(x, "skipped_iterations", to.skipped_iterations);
  if (auto measured = pipeline_of(x))  // only some steps are timed
    to.pipeline = measured;
  to.loss = number(x, "lm_loss").value_or(NAN);
  to.grad_norm = number(x, "grad_norm").value_or(NAN);
  to.learning_rate = field<double>(x, "learning_rate");
  to.step_ms = field<double>(x, "elapsed_ms");
  to.tokens_per_second = field<double>(x, "tokens_per_second");
  to.teraflops_per_second = number(x, "teraflops_per_second");
  to.share_of_matrix_rate = number(x, "share_of_matrix_rate");
  add_point(to.losses, to.iteration, number(x, "lm_loss"));
  add_point(to.speeds, to.iteration, number(x, "tokens_per_second"));
}

void take_validation(run_view& to, const json& x) {
  const auto iteration = field<std::uint64_t>(x, "iteration");
  take_losses(to, x);
  if (const auto test = number(x, "test_loss"))
    return add_event(to, x, "test", fmt::format("test loss {:.4f} at {}", *test, iteration));
  add_point(to.validations, iteration, number(x, "validation_loss"));
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

void take_event(run_view& to, const json& x) {
  count_event(to.counts, x);
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

std::vector<view_action> actions_of(const json& in, const char* name) {
  std::vector<view_action> out;
  for (const auto& x : list(in, name))
    if (x.is_array() && x.size() == 3 && x[0].is_string() && x[1].is_number() && x[2].is_number()
        && out.size() < run_view::most_actions)
      out.push_back({bounded(x[0].get<std::string>()), x[1].get<double>(), x[2].get<double>()});
  return out;
}

void take_timeline(run_view& to, const json& x) {
  view_timeline out{.at = field<double>(x, "at"),
                    .iteration = field<std::uint64_t>(x, "iteration"),
                    .planned_ms = field<double>(x, "planned_ms"),
                    .executed_ms = field<double>(x, "executed_ms"),
                    .bubble = field<double>(x, "bubble"),
                    .planned_bubble = field<double>(x, "planned_bubble"),
                    .left_out = field<std::uint64_t>(x, "left_out"),
                    .rows = {}};
  for (const auto& row : list(x, "rows"))
    if (out.rows.size() < run_view::most_names)
      out.rows.push_back(
          {field<int>(row, "rank"), actions_of(row, "executed"), actions_of(row, "planned")});
  to.timeline = std::move(out);
}

std::map<std::string, view_traffic> traffic(const json& x, const char* name) {
  std::map<std::string, view_traffic> out;
  for (const auto& edge : list(x, name)) {
    const auto peer = field<std::string>(edge, "peer");
    auto& to = out[has_room(out, peer) ? peer : "other"];
    to.messages += field<std::uint64_t>(edge, "messages");
    to.bytes += field<std::uint64_t>(edge, "bytes");
  }
  return out;
}

std::uint64_t bytes_of(const std::map<std::string, view_traffic>& edges) {
  std::uint64_t out = 0;
  for (const auto& [peer, one] : edges)
    out += one.bytes;
  return out;
}

view_device device_of(const json& x) {
  return {.device = field<int>(x, "device"),
          .name = field<std::string>(x, "name"),
          .power_w = number(x, "power_w"),
          .clock_mhz = number(x, "clock_mhz"),
          .temperature_c = number(x, "temperature_c"),
          .memory_bytes = number(x, "memory_bytes"),
          .utilisation = number(x, "utilisation")};
}

std::vector<view_device> devices_of(const json& x) {
  std::vector<view_device> out;
  const auto found = x.find("devices");
  if (found == x.end() || !found->is_array())
    return out;
  for (const auto& one : *found)
    if (one.is_object() && out.size() < run_view::most_names)
      out.push_back(device_of(one));
  return out;
}

/// The whole numbers of an object, by name.
std::map<std::string, std::uint64_t> sizes(const json& x, const char* name) {
  std::map<std::string, std::uint64_t> out;
  if (const auto found = x.find(name); found != x.end() && found->is_object())
    for (const auto& [key, size] : found->items())
      if (size.is_number_unsigned() && has_room(out, bounded(key)))
        out[bounded(key)] = size.get<std::uint64_t>();
  return out;
}

void take_process(run_view& to, const json& x) {
  view_process out{.name = field<std::string>(x, "name"),
                   .role = field<std::string>(x, "role"),
                   .host = field<std::string>(x, "host"),
                   .pid = field<std::int64_t>(x, "pid"),
                   .ranks = {},
                   .at = field<double>(x, "at"),
                   .resident_bytes = field<std::uint64_t>(x, "resident_bytes"),
                   .memory_bytes = sizes(x, "memory"),
                   .leases = field<std::uint64_t>(x, "leases"),
                   .lanes = {},
                   .cpu_s = field<double>(x, "cpu_s"),
                   .up_s = field<double>(x, "up_s"),
                   .peak_resident_bytes = field<std::uint64_t>(x, "peak_resident_bytes"),
                   .sent = traffic(x, "sent"),
                   .received = traffic(x, "received"),
                   .devices = devices_of(x),
                   .queues = sizes(x, "queues"),
                   .energy_j = number(x, "energy_j")};
  out.sent_bytes = bytes_of(out.sent);
  out.received_bytes = bytes_of(out.received);
  for (const auto& rank : list(x, "ranks"))
    if (rank.is_number_integer() && out.ranks.size() < run_view::most_names)
      out.ranks.push_back(rank.get<int>());
  for (const auto& lane : list(x, "lanes"))
    if (out.lanes.size() < run_view::most_names)
      out.lanes.push_back({field<std::string>(lane, "who"),
                           field<std::string>(lane, "state"),
                           field<std::string>(lane, "work"),
                           texts(lane, "on", run_view::most_waits),
                           field<double>(lane, "for_s")});
  if (out.name.empty() || !has_room(to.processes, out.name, run_view::most_members))
    return;
  auto& before = to.processes[out.name];
  if (before.pid == out.pid && out.at > before.at) {
    const auto share = (out.cpu_s - before.cpu_s) / (out.at - before.at);
    out.cpu_share = std::isfinite(share) ? share : -1;
  }
  before = std::move(out);
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

void take_state(run_view& to, const json& x) {
  to.state = field<std::string>(x, "state");
  to.state_since = field<double>(x, "at");
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
    take_state(to, x);
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
    *this = {};
    id = now;
  }
  name = field<std::string>(x, "name");
  program = field<std::string>(x, "program");
  host = field<std::string>(x, "host");
  schedule = field<std::string>(x, "schedule");
  precision = field<std::string>(x, "precision");
  steps = field<std::uint64_t>(x, "steps");
  first_step = field<std::uint64_t>(x, "first_step");
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
