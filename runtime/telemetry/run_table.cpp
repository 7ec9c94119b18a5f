#include "runtime/telemetry/run_table.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// Calls visit(line, number) for each terminated line, without "\r".
template <class Visit>
void for_each_line(std::string_view text, const Visit& visit) {
  std::size_t number = 1;
  for (auto end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    auto line = text.substr(0, end);
    text.remove_prefix(end + 1);
    if (line.ends_with('\r'))
      line.remove_suffix(1);
    visit(line, number++);
  }
}

std::vector<std::string> cells_of(std::string_view row) {
  std::vector<std::string> out;
  while (true) {
    const auto end = std::min(row.find(','), row.size());
    out.emplace_back(row.substr(0, end));
    if (end == row.size())
      return out;
    row.remove_prefix(end + 1);
  }
}

/// Empty for non-finite values, too.
template <class T>
std::optional<T> number_in(const std::string& cell) {
  T out = 0;
  const auto [end, failure] = std::from_chars(cell.data(), cell.data() + cell.size(), out);
  const bool is_one = failure == std::errc{} && end == cell.data() + cell.size() && !cell.empty()
                      && std::isfinite(double(out));
  return is_one ? std::optional(out) : std::nullopt;
}

std::string text_in(const nlohmann::json& entry, const char* field) {
  const auto at = entry.find(field);
  return at != entry.end() && at->is_string() ? at->get<std::string>() : "";
}

logged_event event_in(const nlohmann::json& entry) {
  logged_event out{entry.at("iteration").get<std::uint64_t>(),
                   text_in(entry, "event"),
                   text_in(entry, "why"),
                   std::nullopt};
  if (const auto at = entry.find("seconds"); at != entry.end() && at->is_number())
    out.seconds = at->get<double>();
  return out;
}

bool ends_like_a_log(const fs::path& x) {
  return x.extension() == ".jsonl" || x.extension() == ".csv";
}

}  // namespace

run_table::run_table(const fs::path& log) {
  const auto file = read_text(log);
  const std::string_view text = file;
  const auto header = text.substr(0, text.find_first_of("\r\n"));
  const auto columns = cells_of(header);
  if (std::find(columns.begin(), columns.end(), "iteration") != columns.end())
    read_table(text);
  else
    read_json(text);
  if (fields_.empty() && !skipped_.empty())
    throw input_error(
        "cannot plot '{}': line {} is not a JSON object with an 'iteration'; give a file that "
        "`troupe train` wrote with `watch.log_file` or `watch.csv_file`",
        log.string(),
        skipped_.front());
  if (fields_.empty())
    throw input_error("cannot plot '{}': it has no steps yet", log.string());
}

void run_table::read_json(std::string_view text) {
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    const auto entry = json_value_or_discarded(line);
    const auto at = entry.is_object() ? entry.find("iteration") : entry.end();
    if (!entry.is_object() || at == entry.end() || !at->is_number_unsigned())
      return skipped_.push_back(number);
    if (entry.contains("event"))
      return events_.push_back(event_in(entry));
    for (const auto& [field, value] : entry.items())
      if (value.is_number() && field != "iteration")
        fields_[field][at->get<std::uint64_t>()] = value.get<double>();
  });
}

void run_table::read_table(std::string_view text) {
  std::vector<std::string> columns;
  for_each_line(text, [&](std::string_view line, std::size_t number) {
    const auto cells = cells_of(line);
    if (columns.empty()) {
      columns = cells;
      return;
    }
    std::optional<std::uint64_t> iteration;
    for (std::size_t c = 0; c < std::min(cells.size(), columns.size()); ++c)
      if (columns[c] == "iteration")
        iteration = number_in<std::uint64_t>(cells[c]);
    if (!iteration || cells.size() != columns.size())
      return skipped_.push_back(number);
    for (std::size_t c = 0; c < cells.size(); ++c)
      if (const auto x = number_in<double>(cells[c]);
          x && columns[c] != "iteration" && columns[c] != "state_digest")
        fields_[columns[c]][*iteration] = *x;
  });
}

std::vector<curve_point> run_table::by_iteration(const std::string& field) const {
  std::vector<curve_point> out;
  if (const auto found = fields_.find(field); found != fields_.end())
    for (const auto& [iteration, value] : found->second)
      out.push_back({double(iteration), value});
  return out;
}

std::optional<double> run_table::at(const std::string& field, std::uint64_t iteration) const {
  const auto found = fields_.find(field);
  if (found == fields_.end())
    return std::nullopt;
  const auto value = found->second.find(iteration);
  return value == found->second.end() ? std::nullopt : std::optional(value->second);
}

std::vector<std::string> run_table::fields() const {
  std::vector<std::string> out;
  for (const auto& [field, values] : fields_)
    out.push_back(field);
  return out;
}

std::uint64_t run_table::last_iteration() const {
  std::uint64_t out = 0;
  for (const auto& [field, values] : fields_)
    out = std::max(out, values.rbegin()->first);
  return out;
}

fs::path find_log(const fs::path& run) {
  std::error_code failure;
  if (!fs::is_directory(run, failure))
    return run;
  for (const auto* usual : {"log.jsonl", "log.csv"})
    if (fs::exists(run / usual, failure))
      return run / usual;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(run, failure), end; !failure && at != end; at.increment(failure))
    if (ends_like_a_log(at->path()))
      found.push_back(at->path());
  if (found.size() == 1)
    return found.front();
  throw input_error(
      "the folder '{}' has {}: name the file that `troupe train` wrote with `watch.log_file` or "
      "`watch.csv_file`; "
      "in the `checkpoints.save` folder of a run it is log.jsonl unless it was given another name",
      run.string(),
      found.empty() ? "no log.jsonl, and no other file that ends in .jsonl or .csv"
                    : "no log.jsonl, but several files that end in .jsonl or .csv");
}

std::vector<std::string> names_of_runs(const std::vector<fs::path>& logs) {
  const auto name = [](const fs::path& log, int folders) {
    auto at = fs::absolute(log).lexically_normal();
    auto out = fs::path(at.stem());
    if (out == "log") {
      at = at.parent_path();
      out = at.filename();
    }
    for (int i = 0; i < folders && at.has_parent_path() && at != at.root_path(); ++i) {
      at = at.parent_path();
      out = at.filename() / out;
    }
    return out.string();
  };
  constexpr int deepest = 16;
  for (int folders = 0;; ++folders) {
    std::vector<std::string> out;
    for (const auto& log : logs)
      out.push_back(name(log, folders));
    if (folders == deepest || std::set(out.begin(), out.end()).size() == logs.size())
      return out;
  }
}

}  // namespace troupe::runtime
