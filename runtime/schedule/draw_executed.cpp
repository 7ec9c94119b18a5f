#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/schedule/csv_action.hpp"
#include "runtime/schedule/draw.hpp"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

namespace troupe::runtime {
namespace {

struct traced {
  action what;
  double begin, end;  ///< ms
};

/// Empty for spans that are not actions of a plan: "reduce", "update", "eval 0F3".
std::optional<action> action_of(const std::string& name) {
  if (name.find_first_of("FBIWR") == std::string::npos
      || !std::isdigit(static_cast<unsigned char>(name.back())))
    return {};
  try {
    return action_from_text(name).what;
  } catch (const input_error&) {
    return {};
  }
}

/// Reads the spans of the compute tracks of all processes in a trace.
struct step_reader {
  std::uint64_t step;
  const std::string& file;
  std::map<std::uint64_t, std::vector<traced>> spans = {};
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max(), last = 0;
  bool is_trace = false;

  static constexpr const char* other_events = "its events have another format";

  std::uint64_t whole_number(const nlohmann::json& x) const {
    if (!x.is_number_unsigned())
      refuse(other_events);
    return x.get<std::uint64_t>();
  }

  void take(const nlohmann::json& event) {
    if (!event.contains("ph") || event["ph"] != "X" || (event.contains("tid") && event["tid"] != 0)
        || !event.contains("args") || !event["args"].contains("step"))
      return;
    is_trace = true;
    const auto of = whole_number(event["args"]["step"]);
    const auto what = action_of(event.at("name").get<std::string>());
    if (!what)
      return;
    first = std::min(first, of);
    last = std::max(last, of);
    if (of != step)
      return;
    const double begin = event.at("ts").get<double>() / 1000;
    spans[whole_number(event.at("pid"))].push_back(
        {*what, begin, begin + event.at("dur").get<double>() / 1000});
  }

  void read(std::string_view json) {
    // Traces may be large: discards each event after reading it.
    const auto look = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& parsed) {
      if (event != nlohmann::json::parse_event_t::object_end || depth != 2)
        return true;
      take(parsed);
      return false;
    };
    try {
      const auto rest = json_value(json, look);
      if (!rest.is_object() || !rest.contains("traceEvents"))
        refuse("it has no traceEvents");
    } catch (const nlohmann::json::parse_error& e) {
      refuse(e.byte > json.size()
                 ? fmt::format("its JSON ends too early, after {} bytes", json.size())
                 : fmt::format("invalid JSON at byte {}", e.byte));
    } catch (const nlohmann::json::exception&) {
      refuse(other_events);
    }
    if (!is_trace || first > last)
      refuse("it has no actions of any step");
    if (spans.empty())
      throw input_error("the trace '{}' has no step {}; it has {} to {}: give one of them",
                        file,
                        step,
                        first,
                        last);
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw input_error(
        "'{}' is not a trace of a run: {}; give the file that `troupe train` wrote by "
        "`watch.trace_file`",
        file,
        why);
  }
};

using key = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t>;

/// The planned action of an executed one: ignores blocks and R if the plan has none.
key key_of(const plan& planned, const action& x) {
  auto kind = x.kind;
  std::uint32_t block = x.block;
  if (planned.blocks.empty()) {
    block = 0;
    if (kind == action_kind::recompute)
      kind = action_kind::input_gradients;
  }
  return {std::uint32_t(kind) << 16 | value(x.copy), value(x.chunk), value(x.microbatch), block};
}

/// A run with more micro-batches or stages than the plan did not execute this plan.
void require_all_planned(const step_reader& trace, const plan& planned) {
  std::set<key> known;
  for (const auto& row : planned.ranks)
    for (auto x : row) {
      known.insert(key_of(planned, x));
      if (x.kind != action_kind::backward)
        continue;
      for (const auto half : {action_kind::input_gradients, action_kind::weight_gradients}) {
        x.kind = half;
        known.insert(key_of(planned, x));
      }
    }
  for (const auto& [pid, spans] : trace.spans)
    for (const auto& x : spans)
      if (x.what.kind <= action_kind::recompute && !known.contains(key_of(planned, x.what)))
        throw input_error(
            "step {} of the trace '{}' has {}, which the plan '{}' lacks: draw it with the plan of "
            "its run, of as many ranks and micro-batches (`watch.schedule_record` "
            "writes it)",
            trace.step,
            trace.file,
            to_string(x.what, value(x.what.copy) > 0 ? 2 : planned.copies),
            planned.name);
}

struct interval {
  double begin = std::numeric_limits<double>::infinity(), end = 0;

  void include(const traced& x) {
    begin = std::min(begin, x.begin);
    end = std::max(end, x.end);
  }
};

/// The interval in which a rank executed a planned action: for B the span of its I and W, for an
/// undivided chunk the span of all its blocks.
class executed_rank {
 public:
  executed_rank(const plan& planned, const std::vector<traced>& spans) : planned_(planned) {
    for (const auto& x : spans)
      intervals_[key_of(x.what)].include(x);
  }

  std::optional<interval> find(const action& x) const {
    if (x.kind != action_kind::backward) {
      const auto at = intervals_.find(key_of(x));
      return at == intervals_.end() ? std::nullopt : std::optional(at->second);
    }
    if (const auto at = intervals_.find(key_of(x)); at != intervals_.end())
      return at->second;
    auto half = x;
    half.kind = action_kind::input_gradients;
    const auto inputs = find(half);
    half.kind = action_kind::weight_gradients;
    const auto weights = find(half);
    if (!inputs || !weights)
      return {};
    return interval{std::min(inputs->begin, weights->begin), std::max(inputs->end, weights->end)};
  }

 private:
  key key_of(const action& x) const { return runtime::key_of(planned_, x); }

  const plan& planned_;
  std::map<key, interval> intervals_;
};

/// Joins a pair if its actions overlapped in time: it lasts from the first start to the last end.
/// Otherwise it becomes two actions.
void join_pairs(std::vector<timed_action>& row, executed_step& out) {
  for (std::size_t i = 0; i + 1 < row.size(); ++i) {
    auto &a = row[i], &b = row[i + 1];
    if (!a.what.with_next)
      continue;
    ++out.pairs;
    a.what.with_next = a.begin < b.end && b.begin < a.end;
    if (!a.what.with_next) {
      ++out.pairs_apart;
      continue;
    }
    a.begin = b.begin = std::min(a.begin, b.begin);
    a.end = b.end = std::max(a.end, b.end);
  }
}

/// Empty if the order is the plan's; the two actions of a pair may come in either order.
std::string other_order(const plan& planned, std::size_t rank, std::vector<timed_action> executed) {
  std::vector<action> row;
  for (const auto& x : planned.ranks[rank])
    if (x.kind <= action_kind::recompute)
      row.push_back(x);
  const auto same = [](const action& a, action b) {
    b.with_next = a.with_next;
    return a == b;
  };
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i].with_next && i + 1 < row.size() && same(row[i + 1], executed[i].what))
      std::swap(executed[i], executed[i + 1]);
    if (!same(row[i], executed[i].what))
      return fmt::format(
          "rank {}: from its {}{} action on the order differs from the plan: {}, planned {}",
          rank,
          i + 1,
          i / 10 % 10 == 1 || i % 10 > 2 ? "th"
          : i % 10 == 0                  ? "st"
          : i % 10 == 1                  ? "nd"
                                         : "rd",
          to_string(executed[i].what, planned.copies),
          to_string(row[i], planned.copies));
  }
  return "";
}

// Uses the order of actions: clocks are rounded, so a W may seem to end after the next F began.
void measure(rank_timeline& rank, bool training) {
  const auto& row = rank.actions;
  const auto change = [&](double time, int by) {
    const double last = rank.memory.empty() ? 0 : rank.memory.back().first;
    const int held = (rank.memory.empty() ? 0 : int(rank.memory.back().second)) + by;
    rank.peak_chunks = std::max(rank.peak_chunks, held);
    rank.memory.emplace_back(std::max(last, time), held);
  };
  for (std::size_t i = 0, n = 0; i < row.size(); i += n) {
    n = row[i].what.with_next && i + 1 < row.size() ? 2 : 1;
    rank.busy += row[i].end - row[i].begin;
    rank.last_end = std::max(rank.last_end, row[i].end);
    for (auto k = i; k < i + n; ++k)
      if (row[k].what.kind == action_kind::forward && training)
        change(row[k].begin, 1);
    for (auto k = i; k < i + n; ++k)
      if ((row[k].what.kind == action_kind::backward
           || row[k].what.kind == action_kind::weight_gradients)
          && row[k].what.block == 0)
        change(row[k].end, -1);
  }
  rank.first_begin = row.empty() ? 0 : row.front().begin;
  rank.peak_memory = rank.peak_chunks;
}

}  // namespace

executed_step executed_from_trace(std::string_view json,
                                  const std::string& file,
                                  const plan& planned,
                                  std::uint64_t step) {
  step_reader trace{step, file};
  trace.read(json);
  executed_step done;
  auto& out = done.what;
  double begin = std::numeric_limits<double>::infinity();
  std::vector<executed_rank> all;
  for (const auto& [pid, spans] : trace.spans)
    all.emplace_back(planned, spans);
  for (std::size_t r = 0; r < planned.ranks.size(); ++r) {
    auto& rank = out.ranks.emplace_back();
    if (planned.ranks[r].empty())
      continue;
    const auto& first = planned.ranks[r].front();
    // All replicas and tensor ranks have these actions; take the first.
    const auto executed = std::find_if(
        all.begin(), all.end(), [&](const auto& x) { return x.find(first).has_value(); });
    if (executed == all.end())
      throw input_error(
          "step {} of the trace '{}' has {} on no rank, which the plan '{}' has on rank {}: is the "
          "trace of another plan?",
          step,
          file,
          to_string(first, planned.copies),
          planned.name,
          r);
    for (const auto& x : planned.ranks[r]) {
      if (x.kind > action_kind::recompute)
        continue;
      const auto when = executed->find(x);
      if (!when)
        throw input_error(
            "step {} of the trace '{}' lacks {}, which the plan '{}' has on rank {}: is the trace "
            "of another plan, or was the step interrupted?",
            step,
            file,
            to_string(x, planned.copies),
            planned.name,
            r);
      rank.actions.push_back({x, when->begin, when->end});
      begin = std::min(begin, when->begin);
    }
  }
  require_all_planned(trace, planned);
  for (std::size_t r = 0; r < out.ranks.size(); ++r) {
    auto& rank = out.ranks[r];
    join_pairs(rank.actions, done);
    for (auto& x : rank.actions) {
      x.begin -= begin;
      x.end -= begin;
    }
    std::stable_sort(rank.actions.begin(), rank.actions.end(), [](const auto& a, const auto& b) {
      return a.begin < b.begin;
    });
    if (auto other = other_order(planned, r, rank.actions); !other.empty())
      done.other_order.push_back(std::move(other));
    measure(rank, planned.training);
    out.makespan = std::max(out.makespan, rank.last_end);
  }
  return done;
}

}  // namespace troupe::runtime
