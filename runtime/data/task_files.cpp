#include "runtime/data/task_files.hpp"

#include "runtime/core/counted.hpp"
#include "runtime/core/error.hpp"
#include "runtime/core/json_reader.hpp"
#include "runtime/core/log.hpp"
#include "runtime/data/utf8.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

namespace troupe::runtime {
namespace {

namespace fs = std::filesystem;

/// Bytes of the whitespace character of Python that begins the text; 0: another character.
std::size_t whitespace_at(std::string_view x) {
  if (x.empty())
    return 0;
  const char c = x.front();
  if (c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f'))
    return 1;
  constexpr std::string_view wide[] = {"\u0085",
                                       "\u00a0",
                                       "\u1680",
                                       "\u2000",
                                       "\u2001",
                                       "\u2002",
                                       "\u2003",
                                       "\u2004",
                                       "\u2005",
                                       "\u2006",
                                       "\u2007",
                                       "\u2008",
                                       "\u2009",
                                       "\u200a",
                                       "\u2028",
                                       "\u2029",
                                       "\u202f",
                                       "\u205f",
                                       "\u3000"};
  for (const auto space : wide)
    if (x.starts_with(space))
      return space.size();
  return 0;
}

std::string_view without_margins(std::string_view x) {
  while (const auto n = whitespace_at(x))
    x.remove_prefix(n);
  std::size_t end = 0;  // of the last character that is no whitespace
  for (std::size_t at = 0; at < x.size();) {
    const auto n = whitespace_at(x.substr(at));
    at += n > 0 ? n : 1;
    if (n == 0)
      end = at;
  }
  return x.substr(0, end);
}

void replace_each(std::string& in, std::string_view what, std::string_view by) {
  for (auto at = in.find(what); at != std::string::npos; at = in.find(what, at + by.size()))
    in.replace(at, what.size(), by);
}

/// A file that is read line by line, with errors that name the line.
class task_reader {
 public:
  task_reader(std::string path, const task_settings& task, bool warns)
      : path_(std::move(path)), task_(task), warns_(warns), text_(read_text(path_)) {
    if (const auto bad = first_invalid_utf8(text_); bad != std::string_view::npos)
      throw input_error("cannot read '{}' for the task {}: byte {} is not UTF-8; convert the file",
                        path_,
                        to_string(task.kind),
                        bad);
    rest_ = text_;
    if (rest_.starts_with("\ufeff"))
      rest_.remove_prefix(3);
  }
  task_reader(const task_reader&) = delete;

  /// A line ends with "\n", "\r" or both, as in Python. False after the last one.
  bool next(std::string_view& line) {
    if (rest_.empty())
      return false;
    ++number_;
    const auto end = std::min(rest_.find_first_of("\r\n"), rest_.size());
    line = rest_.substr(0, end);
    rest_.remove_prefix(std::min(rest_.size(), end + (rest_.substr(end, 2) == "\r\n" ? 2 : 1)));
    return true;
  }

  /// The fields of a record of a CSV file; a quoted field may have several lines.
  bool next_record(std::vector<std::string>& fields) {
    fields.clear();
    if (rest_.empty())
      return false;
    number_ += 1 + std::exchange(inside_, 0);
    for (bool more = true; more;)
      fields.push_back(field(more));
    return true;
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw input_error("cannot read '{}' for the task {}: line {} {}",
                      path_,
                      to_string(task_.kind),
                      std::max<std::int64_t>(number_, 1),
                      what);
  }
  /// `what` follows the path.
  void warn(const std::string& what) const {
    if (warns_)
      log_warning("'{}'{}", path_, what);
  }
  std::string where() const { return fmt::format("'{}', line {}", path_, number_); }

 private:
  std::string field(bool& more) {
    std::string out;
    bool quoted = rest_.starts_with('"');
    if (quoted)
      rest_.remove_prefix(1);
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (quoted && rest_.starts_with("\"\"")) {
        out += '"';
        rest_.remove_prefix(2);
        continue;
      }
      if (quoted && c == '"') {
        quoted = false;
        rest_.remove_prefix(1);
        continue;
      }
      if (!quoted && (c == ',' || c == '\r' || c == '\n')) {
        rest_.remove_prefix(rest_.starts_with("\r\n") ? 2 : 1);
        more = c == ',';
        return out;
      }
      if (c == '\n')
        ++inside_;
      out += c;
      rest_.remove_prefix(1);
    }
    if (quoted)
      fail("begins a quoted field that does not end: close its quotes");
    more = false;
    return out;
  }

  std::string path_;
  const task_settings& task_;
  bool warns_;
  std::string text_;
  std::string_view rest_;
  std::int64_t number_ = 0;
  std::int64_t inside_ = 0;  ///< further lines of the last record
};

using table_row = std::vector<std::string_view>;

table_row tab_columns(std::string_view line) {
  line = without_margins(line);
  table_row out;
  for (auto tab = line.find('\t'); tab != std::string_view::npos; tab = line.find('\t')) {
    out.push_back(line.substr(0, tab));
    line.remove_prefix(tab + 1);
  }
  out.push_back(line);
  return out;
}

void require_number(const task_reader& from, std::string_view word) {
  std::int64_t id = -1;
  const auto end = word.data() + word.size();
  if (std::from_chars(word.data(), end, id).ptr != end || id < 0)
    from.fail(fmt::format("begins with '{}' instead of the number of the pair: give GLUE's file",
                          word.substr(0, 40)));
}

task_sample labelled_pair(std::string first, std::string second, std::int32_t label) {
  return {.texts = {{std::move(first), std::make_shared<const std::string>(std::move(second))}},
          .label = label};
}

void warn_of_test_file(const task_reader& from) {
  from.warn(
      " is a test file without labels: its samples count as class 0, so their accuracy says "
      "nothing");
}

void read_mnli(task_reader& from, std::vector<task_sample>& out) {
  constexpr std::string_view labels[] = {"contradiction", "entailment", "neutral"};
  std::string_view line;
  bool is_test = false;
  for (bool header = true; from.next(line); header = false) {
    const auto row = tab_columns(line);
    if (row.size() < 10)
      from.fail(fmt::format("has {}, and MNLI has at least 10: give GLUE's train.tsv or dev_*.tsv",
                            counted(std::int64_t(row.size()), "column")));
    if (header) {
      if ((is_test = row.size() == 10))
        warn_of_test_file(from);
      continue;
    }
    require_number(from, without_margins(row[0]));
    auto first = clean_text(without_margins(row[8])), second = clean_text(without_margins(row[9]));
    if (first.empty() || second.empty())
      from.fail("has an empty sentence: remove the line");
    const auto label = is_test ? labels[0] : without_margins(row.back());
    const auto* const found = std::ranges::find(labels, label);
    if (found == std::end(labels))
      from.fail(fmt::format(
          "has the label '{}': MNLI's are {}", label.substr(0, 40), fmt::join(labels, ", ")));
    out.push_back(labelled_pair(
        std::move(first), std::move(second), std::int32_t(found - std::begin(labels))));
  }
}

void read_qqp(task_reader& from, std::vector<task_sample>& out) {
  std::string_view line;
  std::size_t first_text = 3;
  std::int64_t skipped = 0;
  bool is_test = false;
  for (bool header = true; from.next(line); header = false) {
    const auto row = tab_columns(line);
    if (header) {
      is_test = row.size() == 3;
      if (!is_test && row.size() != 6)
        from.fail(fmt::format("has {}, and QQP has 6, or 3 in a test file: give GLUE's files",
                              counted(std::int64_t(row.size()), "column")));
      if (is_test)
        warn_of_test_file(from);
      first_text = is_test ? 1 : 3;
      continue;
    }
    if (row.size() != (is_test ? 3 : 6)) {
      if (is_test)
        from.fail(fmt::format("has {} instead of 3: repair the line",
                              counted(std::int64_t(row.size()), "column")));
      ++skipped;
      continue;
    }
    require_number(from, without_margins(row[0]));
    auto first = clean_text(without_margins(row[first_text])),
         second = clean_text(without_margins(row[first_text + 1]));
    const auto label = is_test ? "0" : without_margins(row[5]);
    if (label != "0" && label != "1")
      from.fail(fmt::format("has the label '{}': QQP's are 0 and 1", label.substr(0, 40)));
    if (first.empty() || second.empty()) {
      if (is_test)
        from.fail("has an empty question: remove the line");
      ++skipped;
      continue;
    }
    out.push_back(labelled_pair(std::move(first), std::move(second), label == "1" ? 1 : 0));
  }
  if (skipped > 0)
    from.warn(
        fmt::format(": skipped {} without 6 columns or with an empty question, as Megatron-LM does",
                    counted(skipped, "line")));
}

std::string text_in(const task_reader& from, const nlohmann::json& x, const char* what) {
  if (!x.is_string())
    from.fail(fmt::format("has a {} that is not a text: {}", what, shown(x)));
  return x.get<std::string>();
}

/// Joins a question of RACE and one of its answers: "_" is the place of the answer.
std::string answered(std::string question, const std::string& answer) {
  if (question.find('_') == std::string::npos)
    return question + " " + answer;
  replace_each(question, "_", answer);
  return question;
}

void read_race(task_reader& from, std::vector<task_sample>& out) {
  const auto four = std::size_t(task_settings{.kind = task_kind::race}.choices());
  std::string_view line;
  while (from.next(line)) {
    const auto object = parse_json(line, from.where());
    const auto list = [&](const char* key) -> const nlohmann::json& {
      const auto& found = member(object, key, from.where());
      if (!found.is_array())
        from.fail(
            fmt::format("has '{}' as {} instead of a list: give RACE's files", key, shown(found)));
      return found;
    };
    const auto article = std::make_shared<const std::string>(
        clean_text(string_member(object, "article", from.where())));
    const auto &questions = list("questions"), &options = list("options"),
               &answers = list("answers");
    if (questions.size() != options.size() || questions.size() != answers.size())
      from.fail(
          fmt::format("has {} questions, {} lists of options and {} answers: give one of each",
                      questions.size(),
                      options.size(),
                      answers.size()));
    for (std::size_t q = 0; q < questions.size(); ++q) {
      const auto answer = text_in(from, answers[q], "answer");
      if (answer.size() != 1 || answer[0] < 'A' || answer[0] >= char('A' + four))
        from.fail(fmt::format("has the answer '{}': RACE's are A to D", answer.substr(0, 40)));
      if (!options[q].is_array() || options[q].size() != four)
        from.fail(fmt::format("has options {}: a question has four", shown(options[q])));
      const auto question = text_in(from, questions[q], "question");
      task_sample sample{.texts = {}, .label = answer[0] - 'A'};
      for (const auto& option : options[q])
        sample.texts.push_back(
            {clean_text(answered(question, text_in(from, option, "option"))), article});
      out.push_back(std::move(sample));
    }
  }
}

void read_csv(task_reader& from, const task_settings& task, std::vector<task_sample>& out) {
  std::vector<std::string> row;
  if (!from.next_record(row))
    from.fail("is missing: the first line names the columns, as in label,text");
  const auto column = [&](std::string_view name) -> std::optional<std::size_t> {
    const auto found = std::ranges::find(row, name);
    return found == row.end() ? std::nullopt : std::optional(std::size_t(found - row.begin()));
  };
  const auto label = column("label"), second = column("text_b"),
             first = column("text") ? column("text") : column("text_a");
  if (!label || !first)
    from.fail("lacks the column 'label', 'text' or 'text_a': name the columns there");
  for (const auto width = row.size(); from.next_record(row);) {
    if (row.size() == 1 && row.front().empty())
      continue;
    if (row.size() != width)
      from.fail(fmt::format("has {}, and the first line {}: put quotes around fields with commas",
                            counted(std::int64_t(row.size()), "field"),
                            width));
    const auto found = std::ranges::find(task.labels, row[*label]);
    if (found == task.labels.end())
      from.fail(fmt::format("has the label '{}': `model.task.labels` are {}",
                            row[*label].substr(0, 40),
                            fmt::join(task.labels, ", ")));
    const auto number = std::int32_t(found - task.labels.begin());
    auto text = clean_text(without_margins(row[*first]));
    if (second)
      out.push_back(
          labelled_pair(std::move(text), clean_text(without_margins(row[*second])), number));
    else
      out.push_back({.texts = {{std::move(text)}}, .label = number});
  }
}

}  // namespace

std::vector<std::string> task_files(const task_settings& task,
                                    const std::vector<std::string>& said) {
  std::vector<std::string> out;
  for (const auto& path : said) {
    std::error_code failure;
    if (task.kind != task_kind::race || !fs::is_directory(path, failure)) {
      out.push_back(path);
      continue;
    }
    const auto before = std::ptrdiff_t(out.size());
    for (fs::directory_iterator at(path, failure), end; !failure && at != end;
         at.increment(failure))
      if (at->path().extension() == ".txt" && !at->path().filename().string().starts_with('.'))
        out.push_back(at->path().string());
    if (failure)
      throw input_error("cannot read the folder '{}': {}", path, failure.message());
    if (std::ptrdiff_t(out.size()) == before)
      throw input_error("the folder '{}' has no *.txt: name one of RACE's, such as RACE/train/high",
                        path);
    std::sort(out.begin() + before, out.end());
  }
  return out;
}

std::string clean_text(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    std::size_t spaces = 0;
    while (const auto n = whitespace_at(text.substr(spaces)))
      spaces += n;
    if (spaces > 0)
      out += ' ';
    else
      out += text.front();
    text.remove_prefix(std::max<std::size_t>(spaces, 1));
  }
  for (int i = 0; i < 3; ++i)
    replace_each(out, " . ", ". ");
  return out;
}

std::vector<task_sample> read_task(const task_settings& task,
                                   const std::vector<std::string>& files,
                                   bool warns) {
  std::vector<task_sample> out;
  for (const auto& path : files) {
    task_reader from(path, task, warns);
    const auto before = out.size();
    switch (task.kind) {
      case task_kind::none:
        break;
      case task_kind::mnli:
        read_mnli(from, out);
        break;
      case task_kind::qqp:
        read_qqp(from, out);
        break;
      case task_kind::race:
        read_race(from, out);
        break;
      case task_kind::csv:
        read_csv(from, task, out);
        break;
    }
    if (out.size() == before)
      throw input_error(
          "'{}' has no samples of the task {}: name a file with some", path, to_string(task.kind));
  }
  return out;
}

void validate_task(const task_settings& x, std::vector<std::string>& wrong) {
  if (!x.is_on()) {
    if (x != task_settings())
      wrong.emplace_back(
          "`model.task.labels`, `model.task.train`, `model.task.valid` and `model.task.epochs` "
          "need `model.task.kind`: name the task, or leave them out");
    return;
  }
  if (x.train.empty())
    wrong.emplace_back("`model.task.kind` needs `model.task.train` FILE: the labelled texts");
  if (x.kind != task_kind::csv && !x.labels.empty())
    wrong.push_back(fmt::format(
        "`model.task.labels` are of `model.task.kind` csv, and {} has its own: leave them out",
        to_string(x.kind)));
  const std::set<std::string> different(x.labels.begin(), x.labels.end());
  if (x.kind == task_kind::csv && (different.size() < 2 || different.size() < x.labels.size()))
    wrong.emplace_back(
        "`model.task.kind` csv needs `model.task.labels` LABEL...: two or more different ones");
}

}  // namespace troupe::runtime
