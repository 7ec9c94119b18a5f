#include "actors/command/checkpoint_pages.hpp"
#include "actors/command/help_text.hpp"
#include "runtime/checkpoint/compare.hpp"
#include "runtime/core/json_text.hpp"
#include "runtime/core/progress.hpp"

#include <cmath>
#include <fmt/format.h>
#include <set>
#include <tuple>

namespace troupe::command {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using runtime::checkpoint_reader;

/// The differing fields of two JSON objects, as a list of {field, a, b}; null: the field is absent.
ordered_json differences(const json& a, const json& b) {
  const auto flat_a = a.empty() ? a : a.flatten(), flat_b = b.empty() ? b : b.flatten();
  std::set<std::string> paths;
  for (const auto* x : {&flat_a, &flat_b})
    for (const auto& [path, value] : x->items())
      paths.insert(path);
  auto out = ordered_json::array();
  for (const auto& path : paths) {
    const auto x = flat_a.value(path, json()), y = flat_b.value(path, json());
    if (x != y)
      out.push_back({{"field", path.substr(1)}, {"a", x}, {"b", y}});
  }
  return out;
}

json described(const checkpoint_reader& x, std::string_view name) {
  const auto& extents = x.extents(name);
  return {{"dtype", to_string(x.type(name))},
          {"shape", std::vector<std::int64_t>(extents.begin(), extents.end())}};
}

/// Compares one tensor that both have; `advance` gets the number of elements done.
ordered_json compared(const checkpoint_reader& a,
                      const checkpoint_reader& b,
                      std::string_view name,
                      const std::function<void(std::int64_t)>& advance) {
  if (a.extents(name) != b.extents(name))
    return {{"name", name},
            {"state", "other shape"},
            {"a", described(a, name)},
            {"b", described(b, name)}};
  const auto found = runtime::compare(a, b, name, advance);
  if (found.different == 0 && a.type(name) == b.type(name))
    return {{"name", name}, {"state", "equal"}, {"elements", found.elements}};
  ordered_json out = {{"name", name},
                      {"state", "different"},
                      {"elements", found.elements},
                      {"different", found.different},
                      {"largest", nullptr}};
  if (found.largest)
    out["largest"] = std::isfinite(*found.largest) ? json(*found.largest) : json("inf");
  if (a.type(name) != b.type(name)) {
    out["a"] = described(a, name);
    out["b"] = described(b, name);
  }
  return out;
}

std::int64_t elements_of(const checkpoint_reader& x) {
  std::int64_t out = 0;
  for (const auto name : x.names())
    out += x.extents(name).size();
  return out;
}

/// " by at most 0.000123"; empty for types without a distance.
std::string by_at_most(const ordered_json& largest) {
  if (largest.is_null())
    return "";
  return largest.is_string() ? " (some are not finite)"
                             : fmt::format(" by at most {:.3g}", largest.get<double>());
}

std::string line(const ordered_json& x) {
  const auto state = x["state"].get<std::string>();
  std::string out = fmt::format("{:<{}}{}\n", state, title_width, x["name"].get<std::string>());
  const auto more = [&](const std::string& text) {
    out += fmt::format("{:<{}}{}\n", "", title_width, wrapped(text, title_width, page_width));
  };
  if (state == "different")
    more(fmt::format("{} of {} elements differ{}",
                     x["different"].get<std::int64_t>(),
                     x["elements"].get<std::int64_t>(),
                     by_at_most(x["largest"])));
  if (x.contains("a"))
    more(fmt::format("{} {} in A, {} {} in B",
                     x["a"]["dtype"].get<std::string>(),
                     runtime::json_text(x["a"]["shape"]),
                     x["b"]["dtype"].get<std::string>(),
                     runtime::json_text(x["b"]["shape"])));
  return out;
}

/// The last line of the page.
std::string summary(const ordered_json& found) {
  const auto& n = found["summary"];
  const auto all = n["tensors"].get<int>(), equal = n["equal"].get<int>();
  auto out = equal == all ? fmt::format("{} tensors, all equal to the bit", all)
                          : fmt::format("{} tensors: {} equal", all, equal);
  const std::tuple<const char*, const char*, std::string> others[]
      = {{"different", "different", by_at_most(n["largest"])},
         {"other shape", "of another shape", ""},
         {"only in A", "only in A", ""},
         {"only in B", "only in B", ""}};
  for (const auto& [state, text, more] : others)
    if (n[state] != 0)
      out += fmt::format(", {} {}{}", n[state].get<int>(), text, more);
  return out + (found["model"].empty() ? "\n" : "; other models\n");
}

}  // namespace

ordered_json diff_json(const checkpoint_reader& a, const checkpoint_reader& b) {
  const auto &ma = a.manifest(), &mb = b.manifest();
  auto ia = runtime::json_value(ma.identity), ib = runtime::json_value(mb.identity);
  ia.erase("model");
  ib.erase("model");
  if (!ma.products.empty() && !mb.products.empty()) {
    ia["products"] = ma.products;
    ib["products"] = mb.products;
  }
  ordered_json out = {{"a", a.folder().string()}, {"b", b.folder().string()}};
  out["state"]
      = differences({{"iteration", ma.iteration}, {"consumed_samples", ma.consumed_samples}},
                    {{"iteration", mb.iteration}, {"consumed_samples", mb.consumed_samples}});
  out["model"]
      = differences(runtime::json_value(to_json(ma.model)), runtime::json_value(to_json(mb.model)));
  out["identity"] = differences(ia, ib);
  out["tensors"] = ordered_json::array();
  ordered_json n = {{"tensors", 0},
                    {"equal", 0},
                    {"different", 0},
                    {"other shape", 0},
                    {"only in A", 0},
                    {"only in B", 0},
                    {"largest", nullptr}};
  std::set<std::string_view> names;
  for (const auto* x : {&a, &b})
    for (const auto name : x->names())
      names.insert(name);
  runtime::progress_bar bar("comparing", std::uint64_t(elements_of(a)), "elements");
  std::uint64_t done = 0;
  for (const auto name : names) {
    ordered_json one;
    if (a.has(name) && b.has(name))
      one = compared(a, b, name, [&](auto more) { bar.advance_to(done += std::uint64_t(more)); });
    else
      one = {{"name", name}, {"state", a.has(name) ? "only in A" : "only in B"}};
    n["tensors"] = n["tensors"].get<int>() + 1;
    auto& count = n[one["state"].get<std::string>()];
    count = count.get<int>() + 1;
    if (const auto most = one.value("largest", ordered_json()); !most.is_null()) {
      const bool more = n["largest"].is_null() || most.is_string()
                        || (n["largest"].is_number() && most > n["largest"]);
      if (more)
        n["largest"] = most;
    }
    out["tensors"].push_back(std::move(one));
  }
  out["equal"] = n["equal"] == n["tensors"] && out["model"].empty();
  out["summary"] = std::move(n);
  return out;
}

std::string diff_page(const ordered_json& found) {
  auto out = fmt::format("A           {}\nB           {}\n",
                         found["a"].get<std::string>(),
                         found["b"].get<std::string>());
  for (const auto* part : {"state", "model", "identity"})
    for (const auto& x : found[part])
      out += fmt::format("{:<{}}{}\n",
                         part,
                         title_width,
                         wrapped(fmt::format("{}: {} in A, {} in B",
                                             x["field"].get<std::string>(),
                                             runtime::json_text(x["a"]),
                                             runtime::json_text(x["b"])),
                                 title_width,
                                 page_width));
  for (const auto& x : found["tensors"])
    out += line(x);
  return out + summary(found);
}

}  // namespace troupe::command
