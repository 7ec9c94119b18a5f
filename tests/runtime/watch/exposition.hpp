// A strict reader of Prometheus' text exposition format, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/

#pragma once

#include <fmt/format.h>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace troupe::tests {

/// The series of a page, and its errors.
struct exposition {
  std::map<std::string, std::string> series;  ///< values by name and labels, as written
  std::vector<std::string> faults;

  explicit exposition(const std::string& page) {
    if (!page.empty() && page.back() != '\n')
      fault("the last line has no end");
    std::istringstream in(page);
    for (std::string line; std::getline(in, line);)
      take(line);
  }

 private:
  std::map<std::string, std::string> types_;
  std::set<std::string> helped_, left_;  // names with a HELP line; names with finished samples
  std::string last_;                     // name of the last sample

  void fault(const std::string& what) { faults.push_back(what); }

  void take(const std::string& line) {
    static const std::regex help(R"(# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) ((?:[^\\]|\\\\|\\n)*))");
    static const std::regex type(
        "# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped)");
    static const std::regex sample(
        R"re(([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? ([^ ]+)(?: (-?[0-9]+))?)re");
    std::smatch found;
    if (line.empty())
      return;
    if (line.starts_with("# HELP")) {
      if (!std::regex_match(line, found, help))
        fault("no HELP line: " + line);
      else if (!helped_.insert(found[1]).second)
        fault("a second HELP line: " + line);
    } else if (line.starts_with("# TYPE")) {
      if (!std::regex_match(line, found, type))
        fault("no TYPE line: " + line);
      else if (last_ == found[1] || left_.contains(found[1]))
        fault("a TYPE line after its samples: " + line);
      else if (!types_.emplace(found[1], found[2]).second)
        fault("a second TYPE line: " + line);
    } else if (!line.starts_with('#')) {
      if (std::regex_match(line, found, sample))
        take_sample(line, found[1], found[2], found[3]);
      else
        fault("no sample: " + line);
    }
  }

  void take_sample(const std::string& line,
                   const std::string& name,
                   const std::string& labels,
                   const std::string& value) {
    // Prometheus parses numbers as Go, which accepts NaN and Inf in any case.
    static const std::regex number(
        "[+-]?(?:[0-9]+\\.?[0-9]*|\\.[0-9]+)(?:e[+-]?[0-9]+)?|[+-]?inf|nan", std::regex::icase);
    static const std::string label = R"re([a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\]|\\\\|\\"|\\n)*")re";
    static const std::regex all_labels(fmt::format("(?:{0}(?:,{0})*,?)?", label));
    if (last_ != name && !last_.empty())
      left_.insert(last_);
    last_ = name;
    if (left_.contains(name))
      fault("samples of one metric are apart: " + line);
    if (!types_.contains(name) || !helped_.contains(name))
      fault("a sample without HELP and TYPE: " + line);
    if (!std::regex_match(value, number))
      fault("no number: " + line);
    if (!std::regex_match(labels, all_labels))
      fault("no labels: " + line);
    const bool counts = types_[name] == "counter";
    if (counts != name.ends_with("_total"))
      fault("only counters end with _total: " + line);
    if (counts && (value.starts_with('-') || !std::regex_match(value.substr(0, 1), number)))
      fault("no count: " + line);
    const auto key = labels.empty() ? name : fmt::format("{}{{{}}}", name, labels);
    if (!series.emplace(key, value).second)
      fault("a second sample: " + line);
  }
};

}  // namespace troupe::tests
