#include "runtime/watch/otlp.hpp"

#include "runtime/core/hash.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/watch/action_parts.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <map>
#include <string_view>
#include <utility>

namespace troupe::runtime {
namespace {

using ordered = nlohmann::ordered_json;

constexpr int internal_span = 1;  // SPAN_KIND_INTERNAL

void add_text(ordered& to, const char* key, const std::string& value) {
  to.push_back({{"key", key}, {"value", {{"stringValue", value}}}});
}

void add_whole(ordered& to, const char* key, std::uint64_t value) {
  to.push_back({{"key", key}, {"value", {{"intValue", std::to_string(value)}}}});
}

void add_number(ordered& to, const char* key, double value) {
  if (std::isfinite(value))  // JSON has only finite numbers
    to.push_back({{"key", key}, {"value", {{"doubleValue", value}}}});
}

class trace_body {
 public:
  trace_body(const run_view& run, const view_timeline& of, std::size_t most_spans)
      : of_(of), most_spans_(std::max<std::size_t>(most_spans, 1)) {
    digester hash;
    hash.add(run.id).add(fmt::format("\n{}", of.iteration));
    trace_ = to_string(hash.result());
    begin_ms_ = of.at * 1e3 - (std::isfinite(of.executed_ms) ? of.executed_ms : 0);
  }

  ordered spans() {
    ordered step = span(step_name, "", "step", 0, of_.executed_ms);
    for (const auto& row : of_.rows)
      add_stage(row);
    auto& attributes = step["attributes"];
    add_whole(attributes, "troupe.iteration", of_.iteration);
    add_number(attributes, "troupe.planned_ms", of_.planned_ms);
    add_number(attributes, "troupe.bubble", of_.bubble);
    add_number(attributes, "troupe.planned_bubble", of_.planned_bubble);
    if (const auto left_out = of_.left_out + left_out_; left_out > 0)
      add_whole(attributes, "troupe.left_out", left_out);
    spans_.insert(spans_.begin(), std::move(step));
    return std::move(spans_);
  }

 private:
  static constexpr const char* step_name = "step";

  void add_stage(const view_row& row) {
    std::map<std::string_view, const view_action*> planned;
    for (const auto& action : row.planned)
      planned.emplace(action.name, &action);
    double begin = 0, end = 0;
    for (const auto& action : row.executed) {
      begin = &action == row.executed.data() ? action.begin_ms : std::min(begin, action.begin_ms);
      end = std::max(end, action.end_ms);
    }
    const auto stage = fmt::format("stage:*.{}", row.rank);
    if (!has_room()) {
      left_out_ += row.executed.size();
      return;
    }
    auto made = span(stage, step_name, stage, begin, end);
    add_place(made["attributes"], row.rank, stage);
    spans_.push_back(std::move(made));
    for (std::size_t i = 0; i < row.executed.size(); ++i) {
      if (!has_room())
        continue;
      const auto found = planned.find(row.executed[i].name);
      add_action(row, i, stage, found == planned.end() ? nullptr : found->second);
    }
  }

  void add_action(const view_row& row,
                  std::size_t number,
                  const std::string& stage,
                  const view_action* planned) {
    const auto& action = row.executed[number];
    auto made = span(
        fmt::format("{} {}", stage, number), stage, action.name, action.begin_ms, action.end_ms);
    auto& attributes = made["attributes"];
    add_place(attributes, row.rank, stage);
    const auto parts = action_parts_of(action.name);
    add_text(attributes, "troupe.action", parts.kind);
    for (const auto& [key, value] : {std::pair("troupe.chunk", parts.chunk),
                                     std::pair("troupe.microbatch", parts.microbatch),
                                     std::pair("troupe.block", parts.block)})
      if (value)
        add_whole(attributes, key, *value);
    if (!parts.copy.empty())
      add_text(attributes, "troupe.copy", parts.copy);
    if (planned) {
      add_number(attributes, "troupe.planned_begin_ms", planned->begin_ms);
      add_number(attributes, "troupe.planned_end_ms", planned->end_ms);
    }
    spans_.push_back(std::move(made));
  }

  static void add_place(ordered& to, int rank, const std::string& stage) {
    add_whole(to, "troupe.rank", std::uint64_t(std::max(rank, 0)));
    add_text(to, "troupe.stage", stage);
  }

  /// False if the span has to be omitted; counts it. The span of the step takes one place.
  bool has_room() {
    if (spans_.size() + 1 < most_spans_)
      return true;
    ++left_out_;
    return false;
  }

  ordered span(const std::string& place,
               const std::string& parent,
               const std::string& name,
               double begin_ms,
               double end_ms) const {
    ordered out = {{"traceId", trace_}, {"spanId", id_of(place)}};
    if (!parent.empty())
      out["parentSpanId"] = id_of(parent);
    out["name"] = name;
    out["kind"] = internal_span;
    out["startTimeUnixNano"] = time_text(begin_ms);
    out["endTimeUnixNano"] = time_text(std::max(begin_ms, end_ms));
    out["attributes"] = ordered::array();
    return out;
  }

  /// 16 hexadecimal digits, not all 0.
  std::string id_of(const std::string& place) const {
    return fmt::format("{:016x}", std::max<std::uint64_t>(hash64(trace_ + place), 1));
  }

  std::string time_text(double ms) const {
    const auto ns = (begin_ms_ + ms) * 1e6;
    // Integers, because doubles near the current Unix time in ns are 256 ns apart.
    return std::to_string(std::isfinite(ns) ? std::uint64_t(std::clamp(ns, 0.0, 9e18)) : 0);
  }

  const view_timeline& of_;
  const std::size_t most_spans_;
  std::string trace_;
  double begin_ms_ = 0;  ///< of the step, Unix milliseconds
  std::size_t left_out_ = 0;
  ordered spans_ = ordered::array();
};

}  // namespace

std::string otlp_trace(const run_view& run, const view_timeline& of, std::size_t most_spans) {
  ordered resource = ordered::array();
  add_text(resource, "service.name", "troupe");
  add_text(resource, "service.version", run.program);
  add_text(resource, "service.instance.id", run.id);
  add_text(resource, "host.name", run.host);
  add_text(resource, "troupe.run", run.name);
  const ordered scope
      = {{"scope", {{"name", "troupe"}}}, {"spans", trace_body(run, of, most_spans).spans()}};
  const ordered one = {{"resource", {{"attributes", std::move(resource)}}},
                       {"scopeSpans", ordered::array({scope})}};
  return json_text_replacing(ordered{{"resourceSpans", ordered::array({one})}});
}

}  // namespace troupe::runtime
