#include "runtime/watch/chrome_trace.hpp"

#include "runtime/core/json_text.hpp"
#include "runtime/watch/action_parts.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::runtime {
namespace {

using ordered = nlohmann::ordered_json;

constexpr int executed_thread = 0, planned_thread = 1;

double finite(double x) {
  return std::isfinite(x) ? x : 0;
}

void append(std::string& to, const ordered& event) {
  to += to.empty() ? "" : ",\n";
  to += json_text_replacing(event);
}

ordered name_event(const char* what, int rank, int thread, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void chrome_trace::add(const view_timeline& x) {
  const auto begin_ms = finite(x.at) * 1e3 - finite(x.executed_ms);
  if (steps_++ == 0)
    first_ms_ = begin_ms;
  const auto begin_us = std::max((begin_ms - first_ms_) * 1e3, end_us_);
  end_us_ = begin_us + std::max(finite(x.executed_ms), 0.0) * 1e3;
  for (const auto& row : x.rows)
    add_row(x, row, begin_us);
}

void chrome_trace::add_row(const view_timeline& of, const view_row& x, double begin_us) {
  if (named_.insert(x.rank).second) {
    const auto stage = "pipeline rank " + std::to_string(x.rank);
    append(events_, name_event("process_name", x.rank, executed_thread, stage));
    append(events_, name_event("thread_name", x.rank, executed_thread, "executed"));
    append(events_, name_event("thread_name", x.rank, planned_thread, "planned"));
  }
  for (const auto& one : x.executed)
    add_action(one, of.iteration, x.rank, false, begin_us);
  for (const auto& one : x.planned)
    add_action(one, of.iteration, x.rank, true, begin_us);
}

void chrome_trace::add_action(
    const view_action& x, std::uint64_t iteration, int rank, bool planned, double begin_us) {
  const auto parts = action_parts_of(x.name);
  ordered about{{"step", iteration}};
  for (const auto& [key, value] :
       {std::pair("chunk", parts.chunk), {"microbatch", parts.microbatch}, {"block", parts.block}})
    if (value)
      about[key] = *value;
  append(events_,
         {{"name", x.name},
          {"cat", planned ? "planned" : "executed"},
          {"ph", "X"},
          {"pid", rank},
          {"tid", planned ? planned_thread : executed_thread},
          {"ts", begin_us + finite(x.begin_ms) * 1e3},
          {"dur", std::max(finite(x.end_ms - x.begin_ms), 0.0) * 1e3},
          {"args", std::move(about)}});
}

std::string chrome_trace::text() const {
  return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + events_ + "\n]}\n";
}

}  // namespace troupe::runtime
