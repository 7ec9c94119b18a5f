#include "actors/command/cluster_file.hpp"

#include "runtime/core/error.hpp"
#include "runtime/core/shortened.hpp"
#include "runtime/file/file.hpp"

#include <algorithm>
#include <charconv>
#include <fmt/ranges.h>
#include <functional>
#include <set>
#include <string_view>
#include <vector>
#include <yaml-cpp/yaml.h>

namespace troupe::command {
namespace {

using runtime::input_error;

constexpr std::size_t largest_file = 1 << 16;

/// The units of a quantity, with their factors.
using units = std::vector<std::pair<std::string_view, double>>;
const units byte_units = {{"GB", 1e9}, {"MB", 1e6}, {"TB", 1e12}};
const units rate_units = {{"GB/s", 1e9}, {"MB/s", 1e6}, {"TB/s", 1e12}};
const units operation_units = {{"TFLOP/s", 1e12}, {"GFLOP/s", 1e9}, {"PFLOP/s", 1e15}};
const units time_units = {{"s", 1}, {"us", 1e-6}, {"ms", 1e-3}, {"h", 3600}};
const units no_unit = {};

class section;
using reading = std::function<void(const YAML::Node& value, const section& in)>;

struct key {
  std::string name;
  reading read;
  bool is_required = true;
};

/// A map of the file: `path` is "device.", or empty at the top.
class section {
 public:
  section(std::string file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  template <class... Args>
  [[noreturn]] void refuse(const YAML::Node& at,
                           fmt::format_string<Args...> why,
                           Args&&... args) const {
    throw input_error("{}, line {}: {}",
                      file_,
                      std::max(0, at.Mark().line) + 1,  // an empty file has none
                      fmt::format(why, std::forward<Args>(args)...));
  }

  std::string word(const YAML::Node& at, const std::string& name) const {
    if (!at.IsScalar() || at.Scalar().empty())
      refuse(at, "`{}{}` takes one value", path_, name);
    return at.Scalar();
  }

  double number(const YAML::Node& at,
                const std::string& name,
                const units& allowed,
                double least,
                double most) const {
    const auto text = word(at, name);
    double value = 0;
    const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    std::string_view unit(end, std::size_t(text.data() + text.size() - end));
    while (!unit.empty() && unit.front() == ' ')
      unit.remove_prefix(1);
    double factor = allowed.empty() && unit.empty() ? 1 : 0;
    std::vector<std::string_view> names;
    for (const auto& [known, by] : allowed) {
      names.push_back(known);
      if (unit == known)
        factor = by;
    }
    if (fault != std::errc() || factor == 0)
      refuse(at,
             "`{}{}` is '{}': a number{} expected",
             path_,
             name,
             runtime::shortened(text, 60),
             names.empty() ? " without a unit is"
                           : fmt::format(" with a unit of {} is", fmt::join(names, ", ")));
    if (!(value * factor >= least && value * factor <= most))  // also of NaN
      refuse(at, "`{}{}` is '{}', which is out of range", path_, name, text);
    return value * factor;
  }

  void read(const YAML::Node& map, const std::vector<key>& keys) const {
    if (!map.IsMap())
      refuse(map,
             "{} takes keys with values",
             path_.empty() ? "a cluster" : "`" + path_.substr(0, path_.size() - 1) + "`");
    std::set<std::string> seen;
    for (const auto& entry : map) {
      const auto name = entry.first.IsScalar() ? entry.first.Scalar() : "";
      const auto found = std::ranges::find(keys, name, &key::name);
      if (found == keys.end()) {
        std::vector<std::string> known;
        for (const auto& x : keys)
          known.push_back(x.name);
        refuse(entry.first,
               "`{}{}` is unknown; known are {}",
               path_,
               runtime::shortened(name, 60),
               fmt::join(known, ", "));
      }
      if (!seen.insert(name).second)
        refuse(entry.first, "`{}{}` is given twice; leave one out", path_, name);
      found->read(entry.second, section(file_, path_ + name + "."));
    }
    for (const auto& x : keys)
      if (x.is_required && !seen.contains(x.name))
        refuse(map, "`{}{}` is missing", path_, x.name);
  }

  /// The section one level up, for messages about a value.
  section above(const std::string& name) const {
    return {file_, path_.substr(0, path_.size() - name.size() - 1)};
  }

 private:
  std::string file_, path_;
};

key text_key(const std::string& name, std::string& to) {
  return {name, [&to, name](const YAML::Node& at, const section& in) {
            to = in.above(name).word(at, name);
          }};
}

template <class T>
key quantity_key(const std::string& name,
                 T& to,
                 const units& allowed,
                 double least,
                 double most,
                 bool is_required = true) {
  return {name,
          [&to, name, &allowed, least, most](const YAML::Node& at, const section& in) {
            to = in.above(name).number(at, name, allowed, least, most);
          },
          is_required};
}

key count_key(const std::string& name, int& to, int most) {
  return {name, [&to, name, most](const YAML::Node& at, const section& in) {
            const auto up = in.above(name);
            const double found = up.number(at, name, no_unit, 1, most);
            to = int(found);
            if (found != to)
              up.refuse(at, "`{}` is '{}': a whole number is expected", name, at.Scalar());
          }};
}

key section_key(const std::string& name, std::vector<key> keys, bool is_required = true) {
  return {name,
          [keys = std::move(keys)](const YAML::Node& at, const section& in) { in.read(at, keys); },
          is_required};
}

}  // namespace

runtime::cluster_outline parse_cluster(const std::string& content, const std::string& file) {
  constexpr double most = 1e21, least_rate = 1e3, longest = 1e12;
  runtime::cluster_outline out;
  auto& d = out.device;
  auto& s = out.measured;
  const std::vector<key> keys = {
      text_key("name", out.name),
      section_key("device",
                  {text_key("name", d.name),
                   quantity_key("memory", d.memory, byte_units, 1e6, most),
                   quantity_key("bandwidth", d.bandwidth, rate_units, least_rate, most),
                   quantity_key("f32", d.f32, operation_units, least_rate, most),
                   quantity_key("bf16", d.bf16, operation_units, least_rate, most),
                   quantity_key("f16", d.f16, operation_units, least_rate, most, false),
                   quantity_key("fp8", d.fp8, operation_units, least_rate, most, false)}),
      count_key("hosts", out.hosts, 1000000),
      count_key("devices-per-host", out.devices_per_host, 1000),
      section_key("inside",
                  {quantity_key("bandwidth", out.inside.bandwidth, rate_units, least_rate, most),
                   quantity_key("latency", out.inside.latency, time_units, 0, 1)}),
      section_key("between",
                  {quantity_key("bandwidth", out.between.bandwidth, rate_units, least_rate, most),
                   quantity_key("latency", out.between.latency, time_units, 0, 1),
                   quantity_key("rails", out.rails, no_unit, 0.01, 1e4)}),
      section_key(
          "failures",
          {quantity_key("device-time", out.device_seconds_between_failures, time_units, 1, longest),
           quantity_key("detection", out.detection, time_units, 0, longest),
           quantity_key("restart", out.restart, time_units, 0, longest),
           quantity_key("job-restart", out.job_restart, time_units, 0, longest),
           quantity_key("checkpoint", out.checkpoint, time_units, 0, longest)},
          false),
      section_key("measured",
                  {quantity_key("products", s.products, no_unit, 0.001, 1.5, false),
                   quantity_key("attention", s.attention, no_unit, 0.001, 1.5, false),
                   quantity_key("memory", s.memory, no_unit, 0.001, 1.5, false),
                   quantity_key("links", s.links, no_unit, 0.001, 1.5, false),
                   quantity_key("handoff", s.handoff, time_units, 0, 1, false),
                   quantity_key("step", s.step, time_units, 0, 60, false),
                   quantity_key("kernel", s.kernel, time_units, 0, 1, false)},
                  false)};
  try {
    section(file, "").read(YAML::Load(content), keys);
  } catch (const YAML::Exception& failure) {
    throw input_error("{}, line {}: not YAML: {}", file, failure.mark.line + 1, failure.msg);
  }
  return out;
}

runtime::cluster_outline read_cluster(const std::string& file) {
  const auto content = runtime::read_text(file);
  if (content.size() > largest_file)
    throw input_error("{}: {} bytes, but a cluster's description has at most {}",
                      file,
                      content.size(),
                      largest_file);
  return parse_cluster(content, file);
}

}  // namespace troupe::command
