#include "runtime/state/ledger_record.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_list.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <fmt/format.h>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace troupe::runtime {

template <>
inline constexpr std::array listed_by_bits<step_report> = {
    &step_report::loss, &step_report::grad_norm, &step_report::params_norm};
template <>
inline constexpr std::array listed_by_bits<validation_report> = {&validation_report::loss};

template <>
inline constexpr std::array listed_by_bits<named_loss> = {&named_loss::mean};

namespace {

using json = nlohmann::json;

constexpr int deepest = 8;
constexpr std::size_t shown_bytes = 80;

json json_of_position(const training_position& x) {
  return {{"iteration", x.iteration},
          {"consumed", x.consumed},
          {"skipped", json_list(x.skipped)},
          {"scale", json_list(x.scale)}};
}

struct record_writer {
  json operator()(const ledger::begun& x) const { return {{"begun", json_of_position(x.at)}}; }
  json operator()(const ledger::job& x) const {
    json of = {{"identity", x.identity}, {"processes", x.processes}};
    if (!x.origin.empty())
      of["origin"] = x.origin;
    return {{"job", of}};
  }
  json operator()(const ledger::committed& x) const {
    auto step = json_of_position(x.at);
    step["state"] = to_string(x.state);
    return {{"committed", step}};
  }
  json operator()(const ledger::replayed& x) const {
    return {{"replayed", {{"iteration", x.iteration}, {"state", to_string(x.state)}}}};
  }
  json operator()(const ledger::told& x) const {
    static constexpr const char* kinds[] = {"step", "validation", "event"};
    const auto fields = std::visit([](const auto& fact) { return json_list(fact); }, x.fact);
    return {{"told", {{"number", x.number}, {kinds[x.fact.index()], fields}}}};
  }
  json operator()(const ledger::restarted& x) const {
    return {{"restarted", {{"at_ns", x.what.at_ns}, {"who", x.what.who}, {"step", x.what.step}}}};
  }
  json operator()(const ledger::succeeded& x) const { return {{"succeeded", x.epoch}}; }
  json operator()(const ledger::keepers& x) const { return {{"keepers", x.of}}; }
  json operator()(const ledger::avoided& x) const {
    return {{"avoided", {{"process", x.process}, {"host", x.host}}}};
  }
  json operator()(const ledger::position& x) const {
    auto at = json_of_position(x.at);
    if (x.local)
      at["local"] = true;
    return {{"position", at}};
  }
  json operator()(const ledger::saved& x) const { return {{"saved", x.iteration}}; }
  json operator()(const ledger::validated& x) const { return {{"validated", x.iteration}}; }
  json operator()(const ledger::tested&) const { return {{"tested", true}}; }
  json operator()(const ledger::drained& x) const { return {{"drained", x.why}}; }
  json operator()(const ledger::commanded& x) const {
    json of = {{"step", x.step}, {"command", json_value(text_of(x.what))}, {"by", x.by}};
    if (std::holds_alternative<commands::learning_rate>(x.what))
      of["factor"] = x.factor;
    return {{"commanded", of}};
  }
};

/// Reads one record; refuses everything that `record_writer` does not write.
class record_reader {
 public:
  record_reader(std::string_view line, const std::string& what) : line_(line), what_(what) {
    if (json_depth(line) <= deepest)
      all_ = json_value_or_discarded(line);
    if (!all_.is_object() || all_.size() != 1)
      refuse();
  }

  ledger_record read() const {
    const auto& kind = all_.begin().key();
    const auto& x = all_.begin().value();
    if (kind == "begun")
      return ledger::begun{position(x)};
    if (kind == "job")
      return ledger::job{text(member(x, "identity")),
                         process_number(member(x, "processes")),
                         x.contains("origin") ? text(x["origin"]) : ""};
    if (kind == "committed")
      return ledger::committed{position(x), state(x)};
    if (kind == "replayed")
      return ledger::replayed{number(member(x, "iteration")), state(x)};
    if (kind == "told")
      return ledger::told{number(member(x, "number")), fact(x)};
    if (kind == "restarted")
      return ledger::restarted{
          {number(member(x, "at_ns")), text(member(x, "who")), number(member(x, "step"))}};
    if (kind == "succeeded")
      return ledger::succeeded{epoch(x)};
    if (kind == "keepers")
      return ledger::keepers{processes(x)};
    if (kind == "avoided")
      return ledger::avoided{process_number(member(x, "process")),
                             process_number(member(x, "host"))};
    if (kind == "position")
      return ledger::position{position(x), is_local(x)};
    if (kind == "saved")
      return ledger::saved{number(x)};
    if (kind == "validated")
      return ledger::validated{number(x)};
    if (kind == "tested" && x == true)
      return ledger::tested{};
    if (kind == "drained")
      return ledger::drained{text(x)};
    if (kind == "commanded")
      return command(x);
    refuse();
  }

 private:
  [[noreturn]] void refuse() const {
    throw input_error("{}: '{}' is not a record of a ledger", what_, shortened(line_, shown_bytes));
  }
  const json& member(const json& of, const char* name) const {
    if (!of.is_object() || !of.contains(name))
      refuse();
    return of[name];
  }
  std::uint64_t number(const json& x) const {
    if (!x.is_number_unsigned())
      refuse();
    return x.get<std::uint64_t>();
  }
  std::uint32_t epoch(const json& x) const {
    if (number(x) > std::numeric_limits<std::uint32_t>::max())
      refuse();
    return x.get<std::uint32_t>();
  }
  ledger::commanded command(const json& x) const {
    ledger::commanded out{.step = number(member(x, "step")),
                          .what = read_run_command(json_text(member(x, "command"))),
                          .by = text(member(x, "by"))};
    if (!std::holds_alternative<commands::learning_rate>(out.what))
      return out;
    const auto& factor = member(x, "factor");
    if (!factor.is_number() || !(factor.get<double>() > 0))
      refuse();
    out.factor = factor.get<double>();
    return out;
  }
  std::string text(const json& x) const {
    if (!x.is_string())
      refuse();
    return x.get<std::string>();
  }
  template <class Value>
  Value list(const json& x) const {
    if (auto out = value_of_json_list<Value>(x))
      return *std::move(out);
    refuse();
  }
  digest state(const json& of) const {
    const auto hex = text(member(of, "state"));
    digest out;
    const auto part = [&](std::size_t begin, std::uint64_t& to) {
      const char* const end = hex.data() + begin + 16;
      return std::from_chars(hex.data() + begin, end, to, 16).ptr == end;
    };
    if (hex.size() != 32 || !part(0, out.high) || !part(16, out.low))
      refuse();
    return out;
  }
  training_position position(const json& x) const {
    return {number(member(x, "iteration")),
            number(member(x, "consumed")),
            list<skipped_steps>(member(x, "skipped")),
            list<loss_scale>(member(x, "scale"))};
  }
  bool is_local(const json& of) const {
    if (!of.contains("local"))
      return false;
    if (of["local"] != true)
      refuse();
    return true;
  }
  watched fact(const json& x) const {
    if (x.contains("step"))
      return list<step_report>(x["step"]);
    if (x.contains("validation"))
      return list<validation_report>(x["validation"]);
    return list<run_event>(member(x, "event"));
  }
  std::vector<int> processes(const json& x) const {
    std::vector<int> out;
    if (!x.is_array())
      refuse();
    for (const auto& one : x)
      out.push_back(process_number(one));
    return out;
  }
  int process_number(const json& x) const {
    const auto out = whole_number_in(x);
    if (!out || !std::in_range<int>(*out))
      refuse();
    return int(*out);
  }

  std::string_view line_;
  const std::string& what_;
  json all_;
};

/// True for records of a supervisor that took over before the run began.
bool comes_before_the_beginning(const ledger_record& x) {
  return std::holds_alternative<ledger::restarted>(x)
         || std::holds_alternative<ledger::succeeded>(x);
}

/// Collects the committed steps and the inconsistencies.
class ledger_judge {
 public:
  std::vector<std::string> take() {
    if (records_ == 0)
      complain("there are no records: the run has not begun, or its records were removed");
    return std::move(wrong_);
  }

  void judge(const ledger_record& x) {
    ++records_;
    if (!has_begun_ && !comes_before_the_beginning(x)) {
      has_begun_ = true;
      if (!std::holds_alternative<ledger::begun>(x))
        complain("the beginning is missing: the first record does not say where the run starts");
    }
    std::visit(*this, x);
  }

  void operator()(const ledger::begun& x) {
    if (newest_)
      complain("the run begins twice, the second time after iteration {}", x.at.iteration);
    newest_ = x.at;
    start_ = x.at.iteration;
  }
  void operator()(const ledger::committed& x) {
    const auto n = x.at.iteration;
    if (!newest_)
      complain("iteration {} was committed before the run began", n);
    else if (n != newest_->iteration + 1)
      complain("iteration {} was committed after iteration {}", n, newest_->iteration);
    else if (x.at.consumed <= newest_->consumed)
      complain("after iteration {} {} samples are consumed, and {} were before it",
               n,
               x.at.consumed,
               newest_->consumed);
    newest_ = x.at;
    states_[n] = x.state;
    consumed_[n] = x.at.consumed;
  }
  void operator()(const ledger::replayed& x) {
    const auto found = states_.find(x.iteration);
    if (found == states_.end())
      complain("iteration {} ran again, but had not been committed", x.iteration);
    else if (found->second != x.state)
      complain("iteration {} ran again with the result {}; before it was {}",
               x.iteration,
               to_string(x.state),
               to_string(found->second));
  }
  void operator()(const ledger::told& x) {
    if (x.number != told_ + 1)
      complain("fact {} was recorded after fact {}", x.number, told_);
    told_ = x.number;
    const auto* const step = std::get_if<step_report>(&x.fact);
    if (step == nullptr)
      return;
    const auto n = step->iteration;
    const auto before = told_step_ ? told_step_ : start_;
    if (before && n != *before + 1)
      complain("iteration {} was reported after iteration {}", n, *before);
    told_step_ = n;
    const auto consumed = consumed_.find(n);
    if (consumed == consumed_.end() || states_[n] != step->state
        || consumed->second != step->consumed_samples)
      complain("iteration {} was reported differently from its commit", n);
    else if (const auto last = consumed_.find(n - 1);
             last != consumed_.end()
             && consumed->second - last->second != std::uint64_t(step->global_batch_size))
      complain("iteration {} consumed {} samples, and its batch has {}",
               n,
               consumed->second - last->second,
               step->global_batch_size);
  }
  void operator()(const ledger::saved& x) {
    if (x.iteration != start_ && !states_.contains(x.iteration))
      complain("iteration {} was saved, but had not been committed", x.iteration);
  }
  void operator()(const ledger::succeeded& x) {
    if (x.epoch <= epoch_)
      complain("a supervisor of epoch {} took over from one of epoch {}", x.epoch, epoch_);
    epoch_ = x.epoch;
  }
  void operator()(const ledger::commanded& x) {
    if (!newest_ || x.step > newest_->iteration + 1)
      complain("a command for step {} is recorded after iteration {}",
               x.step,
               newest_ ? newest_->iteration : 0);
  }
  template <class Other>
  void operator()(const Other&) {}

 private:
  template <class... Words>
  void complain(fmt::format_string<Words...> text, Words&&... words) {
    wrong_.push_back(fmt::format(text, std::forward<Words>(words)...));
  }

  std::optional<training_position> newest_;
  std::optional<std::uint64_t> start_, told_step_;
  bool has_begun_ = false;
  std::uint64_t records_ = 0, told_ = 0;
  std::uint32_t epoch_ = 0;
  std::map<std::uint64_t, digest> states_;
  std::map<std::uint64_t, std::uint64_t> consumed_;
  std::vector<std::string> wrong_;
};

}  // namespace

std::string text_of(const ledger_record& x) {
  return json_text_replacing(std::visit(record_writer(), x));
}

ledger_record read_ledger_record(std::string_view line, const std::string& what) {
  return record_reader(line, what).read();
}

std::vector<ledger_record> read_ledger(const std::filesystem::path& path) {
  const auto text = read_text(path);
  std::vector<ledger_record> out;
  std::size_t number = 0;
  for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    out.push_back(read_ledger_record(std::string_view(text).substr(at, end - at),
                                     fmt::format("'{}', line {}", path.string(), ++number)));
  return out;
}

bool is_whole(const std::vector<ledger_record>& all) {
  const auto first = std::find_if_not(all.begin(), all.end(), comes_before_the_beginning);
  return first == all.end() || std::holds_alternative<ledger::begun>(*first);
}

std::vector<std::string> complaints_of(const std::vector<ledger_record>& all) {
  ledger_judge by;
  for (const auto& one : all)
    by.judge(one);
  return by.take();
}

}  // namespace troupe::runtime
